//! What libbpf-cargo generates from the compiled kernel programs.

#![allow(missing_docs, clippy::all, dead_code, non_camel_case_types, unsafe_op_in_unsafe_fn)]
#![allow(clippy::undocumented_unsafe_blocks)]

pub(crate) mod metasched {
    include!(concat!(env!("OUT_DIR"), "/metasched.skel.rs"));
}

pub(crate) mod follow {
    include!(concat!(env!("OUT_DIR"), "/follow.skel.rs"));
}

pub(crate) mod overhead {
    include!(concat!(env!("OUT_DIR"), "/overhead.skel.rs"));
}

pub(crate) mod paravirt {
    include!(concat!(env!("OUT_DIR"), "/paravirt.skel.rs"));
}

pub(crate) mod vcpus {
    include!(concat!(env!("OUT_DIR"), "/vcpus.skel.rs"));
}

pub(crate) mod wait {
    include!(concat!(env!("OUT_DIR"), "/wait.skel.rs"));
}
