//! Every file of every corpus through its target, on a stable compiler.

use std::fs;
use std::path::Path;

#[test]
fn every_corpus_file_passes_its_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut total = 0;
    for (name, target) in fairspan_fuzz::TARGETS {
        let folder = root.join(name);
        let mut files = 0;
        for entry in fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.unwrap().path();
            let data = fs::read(&path).unwrap();
            println!("{}", path.display());
            target(&data);
            files += 1;
        }
        assert!(files >= 3, "the corpus of {name} has {files} files: was it left out of the checkout?");
        total += files;
    }
    println!("{total} files");
}
