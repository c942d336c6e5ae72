//! The page in C, in Rust and in words is the same.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::host::{compile, output};
use metasched_dop::page::{FIELDS, MAGIC_NUMBER, PAGE_BYTES, VERSION_NUMBER};

/// Name, offset, size.
type Row = (String, usize, usize);

fn in_rust() -> Vec<Row> {
    FIELDS.iter().map(|field| (field.name.to_string(), field.offset, field.bytes)).collect()
}

#[test]
fn the_header_has_the_page_as_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "cc", "offsets", &[]);
    let said = output(&mut Command::new(program));
    let (constants, fields) = said.split_once('\n').unwrap();
    let magic = String::from_utf8(MAGIC_NUMBER.to_le_bytes().to_vec()).unwrap();
    assert_eq!(constants, format!("{magic} {VERSION_NUMBER} {PAGE_BYTES} {PAGE_BYTES}"));
    let rows: Vec<Row> = fields
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0].to_string(), words[1].parse().unwrap(), words[2].parse().unwrap())
        })
        .collect();
    assert_eq!(rows, in_rust());
}

#[test]
fn the_document_has_the_page_as_it_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/paravirt-page.md");
    let text = fs::read_to_string(&path).unwrap();
    let rows: Vec<Row> = text
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let offset = cells.get(1)?.parse().ok()?;
            let name = cells[3].trim_matches('`').to_string();
            Some((name, offset, cells[2].parse().unwrap()))
        })
        .collect();
    assert_eq!(rows, in_rust(), "docs/paravirt-page.md: bring the table up to date");
}

#[test]
fn fields_fill_the_page_without_gaps() {
    let mut end = 0;
    for field in FIELDS {
        assert_eq!(field.offset, end, "{}", field.name);
        // All but the rest are numbers.
        assert!(field.bytes > 8 || field.offset % field.bytes == 0, "{}", field.name);
        end += field.bytes;
    }
    assert_eq!(end, PAGE_BYTES);
}
