//! Constants, enums and structs of the headers, as bindgen reads them by libclang.

use std::cell::RefCell;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bindgen::callbacks::{
    AttributeInfo, EnumVariantValue, IntKind, ItemInfo, ItemKind, ParseCallbacks, TypeKind,
};

/// A variant of an enum, and its value.
type Variant = (String, u64);

/// The Rust text for all that a header includes from these folders.
pub fn generate(header: &Path, folders: &[PathBuf]) -> String {
    let variants: Rc<RefCell<Vec<(String, Variant)>>> = Rc::default();
    let mut builder = bindgen::builder()
        .header(header.display().to_string())
        .clang_arg("-fparse-all-comments")
        .clang_args(folders.iter().map(|folder| format!("-I{}", folder.display())))
        // Policies are a table, see policies.rs.
        .blocklist_type("policy_id")
        .rustified_enum(".*")
        .derive_default(true)
        .derive_partialeq(true)
        .derive_eq(true)
        // What C leaves as a hole is a field here: so every byte is somebody's.
        .explicit_padding(true)
        .formatter(bindgen::Formatter::None)
        .parse_callbacks(Box::new(Style { variants: Rc::clone(&variants) }));
    // What the C library declares is not ours.
    for folder in folders {
        builder = builder.allowlist_file(format!("{}/[^/]*", folder.display()));
    }
    let bindings = builder.generate().unwrap_or_else(|error| {
        panic!("cannot read {} and what it includes: {error}", header.display())
    });
    let variants = variants.borrow();
    bindings.to_string() + &conversions(&variants)
}

#[derive(Debug)]
struct Style {
    /// By their enums.
    variants: Rc<RefCell<Vec<(String, Variant)>>>,
}

impl ParseCallbacks for Style {
    /// `struct app_args` is `AppArgs`.
    fn item_name(&self, item: ItemInfo<'_>) -> Option<String> {
        (item.kind == ItemKind::Type).then(|| camel_case(item.name))
    }

    /// `LANE_DRAINING` of `enum lane_state` is `LaneState::Draining`.
    fn enum_variant_name(
        &self,
        of: Option<&str>,
        name: &str,
        value: EnumVariantValue,
    ) -> Option<String> {
        let of = of?.strip_prefix("enum ")?;
        let first = of.split('_').next().expect("one part at least");
        let prefix = format!("{}_", first.to_uppercase());
        let variant = camel_case(name.strip_prefix(&prefix).unwrap_or(name));
        let value = match value {
            EnumVariantValue::Unsigned(value) => value,
            EnumVariantValue::Signed(value) => value as u64,
            EnumVariantValue::Boolean(value) => value.into(),
        };
        let found = (camel_case(of), (variant.clone(), value));
        let mut variants = self.variants.borrow_mut();
        if !variants.contains(&found) {
            variants.push(found);
        }
        Some(variant)
    }

    /// Times and what they are compared with have 64 bits, as in the structs; how many
    /// there are of something is the length of an array.
    fn int_macro(&self, name: &str, value: i64) -> Option<IntKind> {
        match name.rsplit('_').next() {
            Some("NS" | "SWEEPS" | "DSQ") => Some(IntKind::U64),
            Some("MAX" | "KEPT" | "LEN" | "WORDS" | "STEPS" | "BUCKETS") => {
                Some(IntKind::Custom { name: "usize", is_signed: false })
            }
            // All ones.
            _ if value < 0 => Some(IntKind::U64),
            _ => None,
        }
    }

    fn add_attributes(&self, info: &AttributeInfo<'_>) -> Vec<String> {
        let attributes: &[&str] = match info.kind {
            TypeKind::Enum => &[
                "#[derive(serde::Serialize, serde::Deserialize)]",
                "#[serde(rename_all = \"snake_case\")]",
            ],
            // Which refuse what is not plain numbers, or has holes.
            _ => &["#[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]"],
        };
        attributes.iter().map(|&attribute| attribute.to_owned()).collect()
    }
}

/// `lane_state` and `LANE_STATE` as `LaneState`.
fn camel_case(name: &str) -> String {
    name.split('_')
        .filter_map(|part| part.split_at_checked(1))
        .map(|(first, rest)| first.to_uppercase() + &rest.to_lowercase())
        .collect()
}

/// Enums from the numbers that the kernel program keeps of them.
fn conversions(variants: &[(String, Variant)]) -> String {
    let mut text = String::new();
    let mut enums: Vec<&str> = variants.iter().map(|(of, _)| of.as_str()).collect();
    enums.dedup();
    for name in enums.into_iter().filter(|name| *name != "PolicyId") {
        let arms = variants.iter().filter(|(of, _)| of == name).fold(
            String::new(),
            |mut arms, (_, (variant, value))| {
                write!(arms, "{value} => Ok(Self::{variant}), ").expect("a String");
                arms
            },
        );
        write!(
            text,
            "\nimpl TryFrom<u32> for {name} {{ type Error = u32; \
             fn try_from(value: u32) -> Result<Self, u32> {{ \
             match value {{ {arms} _ => Err(value) }} }} }}\n"
        )
        .expect("a String");
    }
    text
}
