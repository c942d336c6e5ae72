//! Writes cpio archives in the "newc" form, the one that the kernel unpacks as
//! its first file system. Described in the kernel's
//! `Documentation/driver-api/early-userspace/buffer-format.rst`.
//!
//! A header of numbers and two paddings are less than it takes to hold a library to what the kernel
//! reads.

/// What marks the end of an archive.
const TRAILER: &str = "TRAILER!!!";
/// The kernel wants every header and every file's data at such a boundary.
const ALIGNMENT: usize = 4;

const TYPE_DIRECTORY: u32 = 0o040000;
const TYPE_FILE: u32 = 0o100000;
const TYPE_LINK: u32 = 0o120000;

/// An archive that is being put together in memory.
#[derive(Debug, Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// An archive without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a directory that everybody may read.
    pub fn directory(&mut self, path: &str) {
        self.entry(path, TYPE_DIRECTORY | 0o755, &[]);
    }

    /// Adds a file with the given permission bits.
    pub fn file(&mut self, path: &str, permissions: u32, data: &[u8]) {
        self.entry(path, TYPE_FILE | permissions, data);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.entry(path, TYPE_LINK | 0o777, target.as_bytes());
    }

    /// The finished archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entries = 0;
        self.entry(TRAILER, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, data: &[u8]) {
        let links = if mode & 0o170000 == TYPE_DIRECTORY { 2 } else { 1 };
        // Inode, mode, uid, gid, links, mtime, size, then four device numbers,
        // the length of the name with its NUL, and an unused checksum.
        let fields = [
            self.entries,
            mode,
            0,
            0,
            links,
            0,
            data.len() as u32,
            0,
            0,
            0,
            0,
            path.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(data);
        self.align();
        self.entries += 1;
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An independent reading of the format, so that writer and reader do not share a mistake.
    fn list(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut at = 0;
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701", "no header at {at}");
            let field = |i: usize| {
                let text = std::str::from_utf8(&bytes[at + 6 + 8 * i..at + 14 + 8 * i]).unwrap();
                u32::from_str_radix(text, 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            let name_at = at + 110;
            let name = String::from_utf8(bytes[name_at..name_at + name_size - 1].to_vec()).unwrap();
            let data_at = (name_at + name_size).div_ceil(4) * 4;
            if name == "TRAILER!!!" {
                return entries;
            }
            entries.push((name, mode, bytes[data_at..data_at + size].to_vec()));
            at = (data_at + size).div_ceil(4) * 4;
        }
    }

    #[test]
    fn an_archive_holds_what_was_put_in_whatever_its_length() {
        let mut archive = Archive::new();
        archive.directory("bin");
        for length in 0..9 {
            archive.file(&"n".repeat(length + 1), 0o755, &vec![7; length]);
        }
        let entries = list(&archive.finish());
        assert_eq!(entries.len(), 10);
        assert_eq!(entries[0].0, "bin");
        assert_eq!(entries[0].1, 0o040755);
        assert_eq!(entries[3].2, [7, 7]);
        assert_eq!(entries[3].1, 0o100755);
    }
}
