//! How deep the kernel program's functions call each other, and what stack they need for it, as
//! its object file says.

use std::collections::BTreeMap;

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SectionKind, SymbolKind};

/// The verifier of 7.0 grants so many, whatever is left out of a load; that of 7.3 more.
const FRAMES_MOST: usize = 8;
/// Bytes of stack that any grants to a chain of calls; a frame counts in units of so many.
const STACK_MOST: u64 = 512;
const STACK_UNIT: u64 = 16;
/// As eBPF has them: an instruction is 8 bytes, and calls another function of the program by this.
const INSTRUCTION: usize = 8;
const CALL: u8 = 0x85;
const CALLS_PROGRAM: u8 = 1;
/// The register that points to the end of the frame; what copies it, and what moves a copy.
const FRAME: u8 = 10;
const COPY: u8 = 0xbf;
const ADD: u8 = 0x07;
/// The class of an instruction; it reads memory at its second operand, or writes at its first.
const CLASS: u8 = 0x07;
const READS: u8 = 0x01;
const WRITES: [u8; 2] = [0x02, 0x03];

/// A function, by its section and its place there.
type Place = (usize, u64);

/// Whom each function calls, what it is called, and how much of the stack it uses.
#[derive(Default)]
struct Calls {
    names: BTreeMap<Place, String>,
    of: BTreeMap<Place, Vec<Place>>,
    stack: BTreeMap<Place, u64>,
}

/// How far below its frame's end an instruction reaches, 0 if it does not; and whether its first
/// operand is a copy of where that end is, from then on.
fn reach(code: &[u8], copies: &mut [bool; 16]) -> u64 {
    let (to, from) = (code[1] & 0xf, code[1] >> 4);
    let offset = i64::from(i16::from_le_bytes(code[2..4].try_into().unwrap()));
    let number = i64::from(i32::from_le_bytes(code[4..8].try_into().unwrap()));
    let class = code[0] & CLASS;
    let below = match code[0] {
        ADD if copies[usize::from(to)] => number,
        _ if class == READS && from == FRAME => offset,
        _ if WRITES.contains(&class) && to == FRAME => offset,
        _ => 0,
    };
    copies[usize::from(to)] = code[0] == COPY && from == FRAME;
    below.min(0).unsigned_abs()
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
            let mut copies = [false; 16];
            for (n, code) in section.data().unwrap().chunks_exact(INSTRUCTION).enumerate() {
                let (place, _) =
                    calls.names.range(..=(here, (n * INSTRUCTION) as u64)).next_back().unwrap();
                let stack = calls.stack.entry(*place).or_default();
                *stack = reach(code, &mut copies).max(*stack);
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

    /// What a function's frame counts for.
    fn frame(&self, place: &Place) -> u64 {
        self.stack[place].max(1).next_multiple_of(STACK_UNIT)
    }

    /// Of the chains of calls from a function, itself first, the one that has most of something.
    fn most<K: Ord>(
        &self,
        from: Place,
        has: &impl Fn(&[Place]) -> K,
        known: &mut BTreeMap<Place, Vec<Place>>,
    ) -> Vec<Place> {
        if let Some(chain) = known.get(&from) {
            return chain.clone();
        }
        let called = self.of.get(&from).into_iter().flatten();
        let below = called.map(|to| self.most(*to, has, known)).max_by_key(|chain| has(chain));
        let chain = [vec![from], below.unwrap_or_default()].concat();
        known.insert(from, chain.clone());
        chain
    }

    /// The same of all functions, and what it has of that.
    fn most_of_all<K: Ord>(&self, has: impl Fn(&[Place]) -> K) -> (K, Vec<Place>) {
        let mut known = BTreeMap::new();
        let chains = self.names.keys().map(|place| self.most(*place, &has, &mut known));
        let most = chains.max_by_key(|chain| has(chain)).unwrap();
        (has(&most), most)
    }

    fn say(&self, chain: &[Place]) -> String {
        let frames = chain.iter().map(|at| format!("{} ({})", self.names[at], self.stack[at]));
        frames.collect::<Vec<_>>().join(" > ")
    }
}

#[test]
fn no_chain_of_calls_is_deeper_than_any_kernel_grants() {
    let calls = Calls::of_object(include_bytes!(concat!(env!("OUT_DIR"), "/metasched.bpf.o")));
    let (frames, deepest) = calls.most_of_all(<[Place]>::len);
    println!("{}", calls.say(&deepest));
    assert!(frames > 4, "the object file was not understood: {}", calls.say(&deepest));
    assert!(frames <= FRAMES_MOST, "{frames} frames: {}", calls.say(&deepest));
}

#[test]
fn no_chain_of_calls_has_more_stack_than_any_kernel_grants() {
    let calls = Calls::of_object(include_bytes!(concat!(env!("OUT_DIR"), "/metasched.bpf.o")));
    let (bytes, chain) =
        calls.most_of_all(|chain| chain.iter().map(|place| calls.frame(place)).sum::<u64>());
    println!("{bytes} bytes: {}", calls.say(&chain));
    assert!(bytes > 100, "the object file was not understood: {}", calls.say(&chain));
    assert!(bytes <= STACK_MOST, "{bytes} bytes: {}", calls.say(&chain));
}
