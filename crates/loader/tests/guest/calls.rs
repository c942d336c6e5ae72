//! How deep the kernel program's functions call each other, as its object file says.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind};

/// The verifier of 7.0 grants so many, whatever is left out of a load; that of 7.3 more.
const FRAMES_MOST: usize = 8;
/// As eBPF has them: an instruction is 8 bytes, and calls another function of the program by this.
const INSTRUCTION: usize = 8;
const CALL: u8 = 0x85;
const CALLS_PROGRAM: u8 = 1;

/// A function, by its section and its place there.
type Place = (usize, u64);

/// Whom each function calls, and what it is called.
#[derive(Default)]
struct Calls {
    names: BTreeMap<Place, String>,
    of: BTreeMap<Place, Vec<Place>>,
}

impl Calls {
    fn of_object(bytes: &[u8]) -> Self {
        let file = ElfFile64::<object::Endianness>::parse(bytes).unwrap();
        let mut calls = Self::default();
        for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
            let section = symbol.section_index().unwrap().0;
            calls.names.insert((section, symbol.address()), symbol.name().unwrap().to_owned());
        }
        for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
            let here = section.index().0;
            // What is in no section of the file is the kernel's.
            let moved: BTreeMap<u64, Option<Place>> = section
                .relocations()
                .filter_map(|(at, relocation)| {
                    let RelocationTarget::Symbol(symbol) = relocation.target() else { return None };
                    let symbol = file.symbol_by_index(symbol).unwrap();
                    Some((at, symbol.section_index().map(|s| (s.0, symbol.address()))))
                })
                .collect();
            for (n, code) in section.data().unwrap().chunks_exact(INSTRUCTION).enumerate() {
                if code[0] != CALL || code[1] >> 4 != CALLS_PROGRAM {
                    continue;
                }
                let at = (n * INSTRUCTION) as u64;
                let Some((section, from)) = moved.get(&at).copied().unwrap_or(Some((here, at)))
                else {
                    continue;
                };
                // Relative to the next instruction; in units of instructions.
                let by = i64::from(i32::from_le_bytes(code[4..8].try_into().unwrap())) + 1;
                let to = from.wrapping_add_signed(by * INSTRUCTION as i64);
                let caller = *calls.names.range(..=(here, at)).next_back().unwrap().0;
                assert!(calls.names.contains_key(&(section, to)), "no function is called");
                calls.of.entry(caller).or_default().push((section, to));
            }
        }
        calls
    }

    /// The deepest chain from a function, itself first.
    fn deepest(&self, from: Place, known: &mut BTreeMap<Place, Vec<Place>>) -> Vec<Place> {
        if let Some(chain) = known.get(&from) {
            return chain.clone();
        }
        let called = self.of.get(&from).into_iter().flatten();
        let below = called.map(|to| self.deepest(*to, known)).max_by_key(Vec::len);
        let chain = [vec![from], below.unwrap_or_default()].concat();
        known.insert(from, chain.clone());
        chain
    }
}

#[test]
fn no_chain_of_calls_is_deeper_than_any_kernel_grants() {
    let calls = Calls::of_object(include_bytes!(concat!(env!("OUT_DIR"), "/metasched.bpf.o")));
    let mut known = BTreeMap::new();
    let chains = calls.names.keys().map(|place| calls.deepest(*place, &mut known));
    let deepest = chains.max_by_key(Vec::len).unwrap();
    let names: Vec<&str> = deepest.iter().map(|place| calls.names[place].as_str()).collect();
    println!("{}", names.join(" > "));
    assert!(names.len() > 4, "the object file was not understood: {names:?}");
    assert!(names.len() <= FRAMES_MOST, "{} frames: {}", names.len(), names.join(" > "));
}
