//! Compiles a kernel program and looks at what came of it.
//!
//! The build script of `crates/faulty` has this too, for the program with policies that are for tests.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionKind, SymbolKind,
};

/// Compiles a source of the tree to `NAME.bpf.o`, with the policies that a variable of `crates/abi`'s
/// names, and makes its skeleton, `NAME.skel.rs`: the text of it.
pub fn compile(source: &str, name: &str, policies: &str) -> String {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..");
    let root = root.canonicalize().expect("the workspace's root");
    let out = PathBuf::from(env::var("OUT_DIR").unwrap());
    for folder in ["bpf", "meta", "policies", "crates/loader/build"] {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
    }
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    let policies = env::var_os(policies).expect("crates/abi says where the policies' headers are");

    let clang = clang();
    // Those of the policies come first: one of them may stand in for what is in the tree.
    let mut args: Vec<String> = env::split_paths(&policies)
        .chain(["bpf", "meta"].map(|folder| root.join(folder)))
        .map(|folder| format!("-I{}", folder.display()))
        .collect();
    // What is compiled tells policies' versions apart, so where it lies must not show in it.
    args.push(format!("-ffile-prefix-map={}=.", root.display()));
    // Every kernel with sched_ext knows v4, for which the verifier reads less than for v3.
    // The state words of lanes and tasks are read through the policy's own struct.
    args.extend(
        ["-mcpu=v4", "-fno-strict-aliasing", "-Wall", "-Wextra", "-Werror"].map(Into::into),
    );
    // A callback takes all the arguments that its caller has.
    args.extend(["-Wno-unused-parameter", "-Wno-sign-compare"].map(Into::into));
    let skeleton = out.join(format!("{name}.skel.rs"));
    let object = out.join(format!("{name}.bpf.o"));
    if let Err(error) = SkeletonBuilder::new()
        .source(root.join(source))
        .obj(&object)
        .clang(&clang)
        .clang_args(&args)
        .reference_obj(true)
        .build_and_generate(&skeleton)
    {
        panic!("cannot build {source} with '{clang}': {error:?}");
    }
    check(source, &object);
    fs::read_to_string(&skeleton).expect("it was just made")
}

/// Refuses what a kernel would refuse, or would take and run otherwise than it was meant.
fn check(source: &str, object: &Path) {
    let bytes = fs::read(object).expect("it was just built");
    let object = object::File::parse(&*bytes).expect("the compiler writes ELF");
    let functions = functions(&object);
    // What stands in `.text` is called; what the kernel enters has sections of its own.
    let callees = object.section_by_name(".text").is_some_and(|section| section.size() > 0);
    for (most, what, each) in [
        (FRAMES, "frames", (|_| 1) as fn(&Function) -> u64),
        (STACK_BYTES, "bytes of stack", Function::stack_bytes),
    ] {
        let (needs, calls) = deepest(&functions, each);
        let found = needs > u64::from(callees);
        assert!(found, "{source}: no {what} were found, so its file was not understood");
        if needs > most {
            panic!(
                "{source}: the kernel grants {most} {what}, here are {needs}: {}. Could one of \
                 them stand in line, or keep less?",
                calls.join(" > ")
            );
        }
    }
    if let Some(section) = data_with_addresses(&object) {
        panic!(
            "{source}: its section {section} holds addresses, which the kernel would read as \
             0. Is a callback taken from a policy_ops that is no constant to the compiler?"
        );
    }
}

/// The compiler for BPF: the one asked for, else the version that is tested with.
fn clang() -> String {
    if let Ok(clang) = env::var("BPF_CLANG") {
        return clang;
    }
    ["clang-19", "clang"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()))
        .unwrap_or_else(|| {
            panic!("cannot build the kernel program: there is no clang; apt-get install clang-19")
        })
        .to_string()
}

/// `MAX_CALL_FRAMES` of the kernel's verifier, and `MAX_BPF_STACK`. 7.0 counts what is called by global
/// functions too, later kernels look at each of these by itself: there nothing would say that the others
/// are lost.
const FRAMES: u64 = 8;
const STACK_BYTES: u64 = 512;

/// A function of the program, by where it begins: its section and the number of its first instruction.
struct Function {
    name: String,
    /// How far it goes down from its frame's pointer, bytes.
    deep: u64,
    calls: Vec<FunctionAt>,
}

type FunctionAt = (usize, u64);

impl Function {
    /// What the verifier counts where programs are compiled for the machine.
    fn stack_bytes(&self) -> u64 {
        self.deep.max(1).next_multiple_of(16)
    }
}

/// All of them.
fn functions(object: &object::File) -> BTreeMap<FunctionAt, Function> {
    const INSN: u64 = 8;
    const FRAME: u8 = 10;
    let mut functions = BTreeMap::new();
    for symbol in object.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
        if let (Some(section), Ok(name)) = (symbol.section_index(), symbol.name()) {
            let function = Function { name: name.to_owned(), deep: 0, calls: Vec::new() };
            functions.insert((section.0, symbol.address() / INSN), function);
        }
    }
    for section in object.sections().filter(|section| section.kind() == SectionKind::Text) {
        let relocated: BTreeMap<u64, _> = section.relocations().collect();
        let code = section.data().expect("the compiler has filled it");
        let mut function = None;
        // Registers that hold the frame's pointer.
        let mut framed = 0u16;
        for (at, insn) in (0u64..).zip(code.chunks_exact(INSN as usize)) {
            let here = (section.index().0, at);
            if functions.contains_key(&here) {
                function = Some(here);
            }
            let (code, to, from) = (insn[0], insn[1] & 0xf, insn[1] >> 4);
            let offset = i16::from_le_bytes(insn[2..4].try_into().expect("two bytes"));
            let value = i32::from_le_bytes(insn[4..].try_into().expect("four bytes"));
            let current = functions.get_mut(&function.expect("code is in functions"));
            let current = current.expect("it is one of them");
            let was_framed = framed & 1 << to != 0;
            // The classes LDX; ST and STX; then ALU64 with MOV of a register and ADD of a number.
            let deep = match code {
                _ if code & 7 == 1 && from == FRAME => -i64::from(offset),
                _ if matches!(code & 7, 2 | 3) && to == FRAME => -i64::from(offset),
                0x07 if was_framed => -i64::from(value),
                _ => 0,
            };
            current.deep = current.deep.max(u64::try_from(deep).unwrap_or(0));
            match code {
                0xbf if from == FRAME => framed |= 1 << to,
                _ if matches!(code & 7, 0 | 1 | 4 | 7) => framed &= !(1 << to),
                _ => {}
            }
            // BPF_JMP | BPF_CALL, of BPF_PSEUDO_CALL.
            if code != 0x85 || from != 1 {
                continue;
            }
            let (section, base) = match relocated.get(&(at * INSN)).map(object::Relocation::target)
            {
                Some(RelocationTarget::Symbol(index)) => {
                    let symbol = object.symbol_by_index(index).expect("it is in the table");
                    // The kernel's own functions are in none, and libbpf finds them.
                    let Some(section) = symbol.section_index() else { continue };
                    (section.0, symbol.address() / INSN)
                }
                _ => here,
            };
            current.calls.push((section, base.wrapping_add_signed(i64::from(value) + 1)));
        }
    }
    functions
}

/// What the chain of calls needs that needs most, by what each function does, and their names.
fn deepest(
    functions: &BTreeMap<FunctionAt, Function>,
    each: fn(&Function) -> u64,
) -> (u64, Vec<&str>) {
    type Chain = (u64, Vec<FunctionAt>);
    fn from<'a>(
        at: FunctionAt,
        functions: &BTreeMap<FunctionAt, Function>,
        each: fn(&Function) -> u64,
        known: &'a mut BTreeMap<FunctionAt, Chain>,
    ) -> &'a Chain {
        if !known.contains_key(&at) {
            let function = functions.get(&at).unwrap_or_else(|| panic!("nothing begins at {at:?}"));
            let mut most = (0, Vec::new());
            for callee in &function.calls {
                let below = from(*callee, functions, each, known);
                if below.0 > most.0 {
                    most.clone_from(below);
                }
            }
            most.0 += each(function);
            most.1.insert(0, at);
            known.insert(at, most);
        }
        &known[&at]
    }
    let mut known = BTreeMap::new();
    for at in functions.keys() {
        from(*at, functions, each, &mut known);
    }
    let (needs, chain) = known.into_values().max_by_key(|chain| chain.0).expect("functions");
    (needs, chain.iter().map(|at| functions[at].name.as_str()).collect())
}

/// A section with data in which the compiler has left the address of something: the loader
/// fills in those in code only.
fn data_with_addresses(object: &object::File) -> Option<String> {
    object
        .sections()
        .filter(|section| section.relocations().next().is_some())
        .map(|section| section.name().expect("a section has a name").to_owned())
        .find(|name| [".data", ".rodata", ".bss"].iter().any(|data| name.starts_with(data)))
}
