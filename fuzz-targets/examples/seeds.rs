//! Writes the beginnings of the corpus: what real peers said (`testdata/captures`), and what our encoders write.

use std::path::{Path, PathBuf};

use fuzz_targets::seeds;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let captures = seeds::captures(&root.join("testdata/captures"))?;
    for (target, seeds) in seeds::all(&captures) {
        let folder: PathBuf = root.join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:02}")), seed)?;
        }
    }
    Ok(())
}
