//! The kernel's BTF: read out of a kernel image, and judged.
//!
//! Some builds of 7.1 and 7.2 carry BTF in which a part of the sched_ext kfuncs has
//! lost its `bpf_kfunc` tag. Such a kernel looks fine until a scheduler is loaded;
//! libbpf then fails with `func_proto incompatible with vmlinux`. So a kernel is
//! judged by its BTF before anybody boots it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use btf_rs::{Btf, BtfType, Type};
use metasched_base::{Error, Kind, Result, ResultExt};
use object::{File, Object as _, ObjectSection as _};
use serde::Serialize;

use crate::vmlinuz;

/// The kfuncs without which no scheduler of ours, nor of the usual collections, can be
/// loaded. All of them are in 7.0 to 7.3.
const NEEDED: &[&str] = &[
    "__scx_bpf_dsq_insert_vtime",
    "__scx_bpf_select_cpu_and",
    "scx_bpf_create_dsq",
    "scx_bpf_destroy_dsq",
    "scx_bpf_dsq_insert___v2",
    "scx_bpf_dsq_move_to_local",
    "scx_bpf_dsq_nr_queued",
    "scx_bpf_error_bstr",
    "scx_bpf_get_online_cpumask",
    "scx_bpf_kick_cpu",
    "scx_bpf_now",
    "scx_bpf_nr_cpu_ids",
    "scx_bpf_put_cpumask",
    "scx_bpf_select_cpu_dfl",
    "scx_bpf_task_set_slice",
    "scx_bpf_test_and_clear_cpu_idle",
];

/// Whether BPF schedulers can be loaded against this BTF.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BtfVerdict {
    /// Nothing is missing.
    pub sound: bool,
    /// The kfuncs that are absent or have lost their tag, by name.
    pub missing: Vec<String>,
}
/// Judges whether BPF schedulers can be loaded against this BTF.
///
/// Two signs of a broken build are looked for: a kfunc that every scheduler needs is
/// absent or is not tagged `bpf_kfunc`; and any other sched_ext function that takes the
/// hidden `struct bpf_prog_aux *` (kernels from 7.1 on) is neither tagged nor has the
/// `_impl` twin that the kernel's build makes of a tagged one.
pub fn soundness(btf: &[u8]) -> Result<BtfVerdict> {
    const ATTEMPT: &str = "judge the kernel's BTF";
    let failed = || ATTEMPT.to_string();
    let btf = Btf::from_bytes(btf).attempt(Kind::BadInput, failed)?;
    let functions = Functions::read(&btf).attempt(Kind::BadInput, failed)?;

    let mut missing: BTreeSet<String> = NEEDED
        .iter()
        .filter(|&&name| !functions.is_kfunc(name))
        .map(|&name| name.to_string())
        .collect();
    for (name, &id) in &functions.ids {
        let twin = format!("{name}_impl");
        if !functions.is_kfunc(name)
            && !name.ends_with("_impl")
            && !functions.ids.contains_key(&twin)
            && takes_hidden_argument(&btf, id).attempt(Kind::BadInput, failed)?
        {
            missing.insert(name.clone());
        }
    }
    Ok(BtfVerdict { sound: missing.is_empty(), missing: missing.into_iter().collect() })
}

/// The sched_ext functions of a kernel, and which of its functions are kfuncs.
struct Functions {
    ids: HashMap<String, u32>,
    kfuncs: HashSet<u32>,
}

impl Functions {
    fn read(btf: &Btf) -> Result<Self, btf_rs::Error> {
        let mut ids = HashMap::new();
        let mut kfuncs = HashSet::new();
        let (first, last) = btf.base().type_id_range();
        for id in first..=last {
            match btf.resolve_type_by_id(id)? {
                Type::Func(function) => {
                    let name = btf.resolve_name(&function)?;
                    if name.contains("scx_bpf_") || name.starts_with("bpf_iter_scx_") {
                        ids.insert(name, id);
                    }
                }
                // A component index would make it a tag of an argument.
                Type::DeclTag(tag)
                    if tag.component_index().is_none()
                        && btf.resolve_name(&tag)? == "bpf_kfunc" =>
                {
                    kfuncs.extend(tag.get_type_id());
                }
                _ => {}
            }
        }
        Ok(Self { ids, kfuncs })
    }

    fn is_kfunc(&self, name: &str) -> bool {
        self.ids.get(name).is_some_and(|id| self.kfuncs.contains(id))
    }
}

/// Whether the last argument is a `struct bpf_prog_aux *`, which the verifier supplies.
fn takes_hidden_argument(btf: &Btf, function: u32) -> Result<bool, btf_rs::Error> {
    let Type::Func(function) = btf.resolve_type_by_id(function)? else { return Ok(false) };
    let Type::FuncProto(prototype) = btf.resolve_chained_type(&function)? else {
        return Ok(false);
    };
    let Some(argument) = prototype.parameters.last().filter(|p| !p.is_variadic()) else {
        return Ok(false);
    };
    for ty in btf.chained_type_iter(argument) {
        match ty {
            Type::Ptr(_) | Type::Const(_) => {}
            Type::Struct(structure) => return Ok(btf.resolve_name(&structure)? == "bpf_prog_aux"),
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// Reads the BTF out of a kernel image: an x86 boot image, or a plain ELF `vmlinux`.
pub fn from_vmlinuz(path: &Path) -> Result<Vec<u8>> {
    let attempt = || format!("read the BTF of '{}'", path.display());
    let image = std::fs::read(path).attempt(Kind::BadInput, attempt)?;
    let elf = if image.starts_with(b"\x7fELF") {
        image
    } else {
        vmlinuz::unpack(&image).map_err(|e| Error { attempt: attempt(), ..e })?
    };
    let elf = File::parse(&*elf).attempt(Kind::Unsupported, attempt)?;
    let btf = elf
        .section_by_name(".BTF")
        .ok_or("it has no section .BTF: the kernel was built without CONFIG_DEBUG_INFO_BTF")
        .attempt(Kind::Unsupported, attempt)?;
    Ok(btf.data().attempt(Kind::BadInput, attempt)?.to_vec())
}

#[cfg(test)]
mod tests;
