//! The page by which a host tells of its CPUs, read from bytes. `include/metasched_paravirt.h` has
//! it in C, and `docs/paravirt-page.md` in words; a test holds the three together.

use std::fmt;
use std::sync::atomic::{Ordering, fence};

/// How long a page is, in bytes.
pub const PAGE_BYTES: usize = 4096;
/// How much of it this version uses, in bytes.
pub const HEAD_BYTES: usize = 72;
/// What a page that was written begins with.
pub const MAGIC_NUMBER: u64 = u64::from_le_bytes(*b"MSCHEDPV");
/// The one version that is read here.
pub const VERSION_NUMBER: u32 = 1;

/// How often a page is read that changes meanwhile. The host writes for less than a microsecond in
/// milliseconds, so a second try is rare. Where the host's CPU was taken away while it wrote, no
/// number of tries is enough, and a later look finds the page whole.
const TRIES: u32 = 4;

/// Shorter windows than this are not averages of anything, ns.
const MIN_WINDOW_NS: u64 = 100_000;
/// Nobody could say of longer ones that they stand still, ns.
const MAX_WINDOW_NS: u64 = 10_000_000_000;

/// A number in the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in C.
    pub name: &'static str,
    /// Where it begins, in bytes from the start of the page.
    pub offset: usize,
    /// How long it is, in bytes.
    pub bytes: usize,
}

impl Field {
    const fn new(name: &'static str, offset: usize, bytes: usize) -> Field {
        Field { name, offset, bytes }
    }

    fn wide(self, head: &[u8; HEAD_BYTES]) -> u64 {
        let mut number = [0; 8];
        number[..self.bytes].copy_from_slice(&head[self.offset..self.offset + self.bytes]);
        u64::from_le_bytes(number)
    }

    fn narrow(self, head: &[u8; HEAD_BYTES]) -> u32 {
        let mut number = [0; 4];
        number.copy_from_slice(&head[self.offset..self.offset + 4]);
        u32::from_le_bytes(number)
    }
}

const MAGIC: Field = Field::new("magic", 0, 8);
const VERSION: Field = Field::new("version", 8, 4);
const SEQUENCE: Field = Field::new("sequence", 12, 4);
const WINDOWS: Field = Field::new("windows", 16, 8);
const WINDOW_NS: Field = Field::new("window_ns", 24, 8);
const BEGAN_NS: Field = Field::new("began_ns", 32, 8);
const ENDED_NS: Field = Field::new("ended_ns", 40, 8);
const PHANTOMS_MILLI: Field = Field::new("phantoms_milli", 48, 4);
const IDLE_CPUS_MILLI: Field = Field::new("idle_cpus_milli", 52, 4);
const VCPUS: Field = Field::new("vcpus", 56, 4);
const CPUS: Field = Field::new("cpus", 60, 4);
const OWED_CPUS_MILLI: Field = Field::new("owed_cpus_milli", 64, 4);
const OWING_CPUS_MILLI: Field = Field::new("owing_cpus_milli", 68, 4);
const RESERVED: Field = Field::new("reserved", HEAD_BYTES, PAGE_BYTES - HEAD_BYTES);

/// All that is in a page, in its order.
pub const FIELDS: [Field; 14] = [
    MAGIC,
    VERSION,
    SEQUENCE,
    WINDOWS,
    WINDOW_NS,
    BEGAN_NS,
    ENDED_NS,
    PHANTOMS_MILLI,
    IDLE_CPUS_MILLI,
    VCPUS,
    CPUS,
    OWED_CPUS_MILLI,
    OWING_CPUS_MILLI,
    RESERVED,
];

/// Why a program goes on alone, as it would without this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// The page cannot be opened or read; the number of the system's error.
    Unreadable(i32),
    /// What the path names is no regular file and no device's memory.
    NoFile,
    /// The file is shorter than a page.
    Short,
    /// Nobody named the page, and it belongs to another user, who may not be trusted.
    OfAnother,
    /// The page was never written, or is none.
    Magic,
    /// The page is of this version.
    Version(u32),
    /// The host was writing at each try.
    Busy,
    /// This field says what cannot be.
    Nonsense(&'static str),
    /// The page was not yet seen to change, so it may be one that a host left behind.
    NotYet,
    /// The page is another host's than before, or the host began anew.
    Anew,
    /// The page stands still.
    Still,
}

impl fmt::Display for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Alone::Unreadable(error) => {
                write!(f, "cannot read the page: {}", std::io::Error::from_raw_os_error(*error))
            }
            Alone::NoFile => f.write_str("the page is no file and no device's memory"),
            Alone::Short => write!(f, "the page is shorter than {PAGE_BYTES} bytes"),
            Alone::OfAnother => {
                f.write_str("the page is another user's; name it in METASCHED_DOP_PAGE to trust it")
            }
            Alone::Magic => f.write_str("the page was never written"),
            Alone::Version(version) => {
                write!(f, "the page is of version {version}, and this reads {VERSION_NUMBER}")
            }
            Alone::Busy => f.write_str("the page changes all the time"),
            Alone::Nonsense(field) => write!(f, "the page says of {field} what cannot be"),
            Alone::NotYet => f.write_str("the page was not yet seen to change"),
            Alone::Anew => f.write_str("the host began anew"),
            Alone::Still => f.write_str("the page stands still"),
        }
    }
}

/// What a host told of one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// How many windows were written so far; at least 1.
    pub windows: u64,
    /// How long a window is to be, ns.
    pub window_ns: u64,
    /// When the window began, ns of the host's clock.
    pub began_ns: u64,
    /// When it ended, ns of the host's clock.
    pub ended_ns: u64,
    /// Virtual CPUs, or threads, that were runnable and did not run, in thousandths.
    pub phantoms_milli: u32,
    /// CPUs of the host that had nothing to do, in thousandths.
    pub idle_cpus_milli: u32,
    /// How many virtual CPUs there are; 0 for a cgroup.
    pub vcpus: u32,
    /// How many CPUs of the host it may use.
    pub cpus: u32,
    /// CPUs that others hold beyond their fair shares and that are owed to it, in thousandths.
    pub owed_cpus_milli: u32,
    /// CPUs that it holds beyond its own, and that others wait for to whom they are owed, in
    /// thousandths.
    pub owing_cpus_milli: u32,
}

impl Page {
    /// Reads what `head` says, the first [`HEAD_BYTES`] of a page.
    ///
    /// # Errors
    ///
    /// If it is no page, of another version, just being written, or says what cannot be.
    pub fn from_bytes(head: &[u8; HEAD_BYTES]) -> Result<Page, Alone> {
        if MAGIC.wide(head) != MAGIC_NUMBER {
            return Err(Alone::Magic);
        }
        let version = VERSION.narrow(head);
        if version != VERSION_NUMBER {
            return Err(Alone::Version(version));
        }
        if SEQUENCE.narrow(head) % 2 == 1 {
            return Err(Alone::Busy);
        }
        let page = Page {
            windows: WINDOWS.wide(head),
            window_ns: WINDOW_NS.wide(head),
            began_ns: BEGAN_NS.wide(head),
            ended_ns: ENDED_NS.wide(head),
            phantoms_milli: PHANTOMS_MILLI.narrow(head),
            idle_cpus_milli: IDLE_CPUS_MILLI.narrow(head),
            vcpus: VCPUS.narrow(head),
            cpus: CPUS.narrow(head),
            owed_cpus_milli: OWED_CPUS_MILLI.narrow(head),
            owing_cpus_milli: OWING_CPUS_MILLI.narrow(head),
        };
        page.nonsense().map_or(Ok(page), |field| Err(Alone::Nonsense(field.name)))
    }

    fn nonsense(&self) -> Option<Field> {
        let thousandths = |count: u32| u64::from(count) * 1000;
        if self.windows == 0 {
            Some(WINDOWS)
        } else if !(MIN_WINDOW_NS..=MAX_WINDOW_NS).contains(&self.window_ns) {
            Some(WINDOW_NS)
        } else if self.ended_ns <= self.began_ns {
            Some(ENDED_NS)
        } else if self.cpus == 0 {
            Some(CPUS)
        } else if u64::from(self.idle_cpus_milli) > thousandths(self.cpus) {
            Some(IDLE_CPUS_MILLI)
        } else if u64::from(self.owed_cpus_milli) > thousandths(self.cpus) {
            Some(OWED_CPUS_MILLI)
        } else if u64::from(self.owing_cpus_milli) > thousandths(self.cpus) {
            Some(OWING_CPUS_MILLI)
        } else if self.vcpus > 0 && u64::from(self.phantoms_milli) > thousandths(self.vcpus) {
            Some(PHANTOMS_MILLI)
        } else {
            None
        }
    }

    /// Reads a page that the host may be writing, by its sequence lock. `copy` fills its buffer
    /// with what begins at the given byte of the page.
    ///
    /// # Errors
    ///
    /// As [`Page::from_bytes`] and `copy`; [`Alone::Busy`] if the page changed at each try.
    pub fn read(
        mut copy: impl FnMut(usize, &mut [u8]) -> Result<(), Alone>,
    ) -> Result<Page, Alone> {
        for _ in 0..TRIES {
            let mut head = [0; HEAD_BYTES];
            let (mut before, mut after) = ([0; 4], [0; 4]);
            copy(SEQUENCE.offset, &mut before)?;
            // The numbers must not be read before the first sequence, nor after the second.
            fence(Ordering::Acquire);
            copy(0, &mut head)?;
            fence(Ordering::Acquire);
            copy(SEQUENCE.offset, &mut after)?;
            let whole = before == after && head[SEQUENCE.offset..].starts_with(&before);
            match Page::from_bytes(&head) {
                Err(Alone::Busy) => {}
                read if whole => return read,
                _ => {}
            }
            std::hint::spin_loop();
        }
        Err(Alone::Busy)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A page of 8 virtual CPUs on 4 CPUs.
    pub(crate) fn a_page() -> Page {
        Page {
            windows: 7,
            window_ns: 4_000_000,
            began_ns: 1_000_000_000,
            ended_ns: 1_004_000_000,
            phantoms_milli: 2_500,
            idle_cpus_milli: 500,
            vcpus: 8,
            cpus: 4,
            owed_cpus_milli: 250,
            owing_cpus_milli: 0,
        }
    }

    fn put(head: &mut [u8; HEAD_BYTES], field: Field, number: u64) {
        let bytes = &number.to_le_bytes()[..field.bytes];
        head[field.offset..field.offset + field.bytes].copy_from_slice(bytes);
    }

    pub(crate) fn bytes_of(page: &Page) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        let numbers = [
            (MAGIC, MAGIC_NUMBER),
            (VERSION, u64::from(VERSION_NUMBER)),
            (SEQUENCE, 2),
            (WINDOWS, page.windows),
            (WINDOW_NS, page.window_ns),
            (BEGAN_NS, page.began_ns),
            (ENDED_NS, page.ended_ns),
            (PHANTOMS_MILLI, page.phantoms_milli.into()),
            (IDLE_CPUS_MILLI, page.idle_cpus_milli.into()),
            (VCPUS, page.vcpus.into()),
            (CPUS, page.cpus.into()),
            (OWED_CPUS_MILLI, page.owed_cpus_milli.into()),
            (OWING_CPUS_MILLI, page.owing_cpus_milli.into()),
        ];
        for (field, number) in numbers {
            put(&mut head, field, number);
        }
        head
    }

    fn with(field: Field, number: u64) -> Result<Page, Alone> {
        let mut head = bytes_of(&a_page());
        put(&mut head, field, number);
        Page::from_bytes(&head)
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        assert_eq!(Page::from_bytes(&bytes_of(&a_page())), Ok(a_page()));
        assert_eq!(Page::from_bytes(&[0; HEAD_BYTES]), Err(Alone::Magic));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(with(MAGIC, MAGIC_NUMBER + 1), Err(Alone::Magic));
        assert_eq!(with(VERSION, 2), Err(Alone::Version(2)));
        assert_eq!(with(SEQUENCE, 3), Err(Alone::Busy));
        for (field, number) in [
            (WINDOWS, 0),
            (WINDOW_NS, MIN_WINDOW_NS - 1),
            (WINDOW_NS, MAX_WINDOW_NS + 1),
            (ENDED_NS, 1_000_000_000),
            (CPUS, 0),
            (IDLE_CPUS_MILLI, 4_001),
            (OWED_CPUS_MILLI, 4_001),
            (OWING_CPUS_MILLI, 4_001),
            (PHANTOMS_MILLI, 8_001),
        ] {
            assert_eq!(with(field, number), Err(Alone::Nonsense(field.name)), "{number}");
        }
        for (field, number) in [
            (IDLE_CPUS_MILLI, 4_000),
            (OWED_CPUS_MILLI, 4_000),
            (OWING_CPUS_MILLI, 4_000),
            (PHANTOMS_MILLI, 8_000),
            (VCPUS, 0),
        ] {
            assert!(with(field, number).is_ok(), "{field:?}");
        }
    }

    #[test]
    fn a_page_that_changes_while_it_is_read_is_read_again() {
        let (old, new) = (a_page(), Page { windows: 8, phantoms_milli: 0, ..a_page() });
        let mut page = bytes_of(&old);
        let mut copies = 0;
        let read = Page::read(|offset, to| {
            copies += 1;
            // Between the numbers and the second look at the sequence the host writes.
            if copies == 3 {
                page = bytes_of(&new);
                put(&mut page, SEQUENCE, 4);
            }
            to.copy_from_slice(&page[offset..offset + to.len()]);
            Ok(())
        });
        assert_eq!((read, copies), (Ok(new), 6));
    }

    #[test]
    fn a_page_that_always_changes_is_given_up() {
        let mut page = bytes_of(&a_page());
        let mut copies = 0;
        let read = Page::read(|offset, to| {
            copies += 1;
            put(&mut page, SEQUENCE, 2 * copies);
            to.copy_from_slice(&page[offset..offset + to.len()]);
            Ok(())
        });
        assert_eq!((read, copies), (Err(Alone::Busy), u64::from(3 * TRIES)));
    }

    #[test]
    fn what_cannot_be_copied_is_not_read() {
        assert_eq!(Page::read(|_, _| Err(Alone::Short)), Err(Alone::Short));
    }
}
