//! Lists the built files of the console, so that they become part of the binary.

use std::{env, fmt::Write, fs, path::Path};

fn main() {
    let folder =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("console-dist");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .expect("crates/server/console-dist holds the built console")
        .map(|entry| {
            let name = entry.expect("the folder can be read").file_name();
            name.into_string().expect("plain names")
        })
        .collect();
    names.sort();
    let mut files = String::new();
    for name in &names {
        let content_type = match name.rsplit('.').next().unwrap_or_default() {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            "woff2" => "font/woff2",
            ending => panic!("console-dist/{name}: what is a file ending in {ending}?"),
        };
        let path = folder.join(name);
        println!("cargo:rerun-if-changed={}", path.display());
        writeln!(
            files,
            "File::new({name:?}, {content_type:?}, include_bytes!({path:?})),"
        )
        .expect("a string takes everything");
    }
    let table = format!("static FILES: [File; {}] = [{files}];\n", names.len());
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("console.rs");
    fs::write(out, table).expect("cargo's folder can be written");
}
