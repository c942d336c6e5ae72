//! Faults planted in level 1 and in the policies. A plant is an exact replacement in one of the
//! files, made in a copy when the test runs, so that one whose line has changed fails loudly, and
//! the build takes no longer.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Each is run once, so what the compiler would take is worth more than what it would save: also to
/// inline what has to be, and to look for what it warns of. And it is caught by what it does, not by a
/// trap of the compiler's.
const QUICKLY: [&str; 6] =
    ["-O0", "-g0", "-fno-sanitize=all", "-Xclang", "-disable-llvm-passes", "-w"];

pub(crate) struct Plant {
    /// The file, from the project's root.
    pub file: &'static str,
    pub find: &'static str,
    pub replace: &'static str,
}

impl Plant {
    /// The file with the plant, at the place below `folder` by which others include it.
    fn copy(&self, root: &Path, folder: &Path) {
        let path = root.join(self.file);
        let text = fs::read_to_string(&path).unwrap();
        let found = text.matches(self.find).count();
        assert_eq!(found, 1, "{}: '{}' is there {found} times", self.file, self.find);
        let mut to = folder.join(path.file_name().unwrap());
        if let Some(below) = self.file.strip_prefix("policies/") {
            to = folder.join(below);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            let options = to.with_file_name("options.h");
            fs::copy(path.with_file_name("options.h"), options).unwrap();
        }
        fs::write(to, text.replace(self.find, self.replace)).unwrap();
    }
}

/// Level 1 with the plant, and with the policies of `image::faulty()`.
pub(crate) fn planted(plant: &Plant) -> &'static [u8] {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("plant").replace("::", "-");
    let sim = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = sim.join("../..");
    let folder = std::env::temp_dir().join(format!("metasched-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    plant.copy(&root, &folder);
    let main = "meta/metasched.bpf.c";
    let main = match plant.file == main {
        true => folder.join("metasched.bpf.c"),
        false => root.join(main),
    };
    let out = Path::new(env!("SIM_OUT"));
    // What the tests ask beside it is compiled already, unless the plant is in it.
    let beside = match plant.file == "bpf/wait_histogram.bpf.h" {
        true => sim.join("seam/metasched.c"),
        false => out.join("metasched.c.o"),
    };
    let object = folder.join("planted.so");
    let output = Command::new(env!("SIM_COMPILER"))
        .arg(format!("-I{}", folder.display()))
        .args(env!("SIM_FLAGS").split(' '))
        .args(QUICKLY)
        .args(["-shared", "-Wl,-z,defs", "-Wl,-Bsymbolic", "-o"])
        .arg(&object)
        .args([main, beside, out.join("seam.c.o")])
        .output()
        .expect("the compiler that built the policies");
    let bytes = fs::read(&object);
    let _ = fs::remove_dir_all(&folder);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    bytes.unwrap().leak()
}
