//! The tutorial and the how-to pages are right.
//!
//! The blocks of a page marked `sh run` are one script, run by bash in an empty folder; those marked `sh server` are
//! another one, with the address of a server in `$URL` and an administrator's token in `$TOKEN`. A block of `text`
//! directly below shows what a block prints.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{serve::Server, support::text};

const FENCE: &str = "```";

/// A block to run: its line in the page, its commands and the output that the page shows, if any.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    line: usize,
    commands: String,
    shown: Option<String>,
}

/// The blocks of a page with this mark.
fn blocks(page: &str, mark: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines().enumerate();
    // Whether only empty lines were read since a block with the mark.
    let mut follows = false;
    while let Some((line, opening)) = lines.next() {
        let Some(info) = opening.strip_prefix(FENCE) else {
            follows &= opening.is_empty();
            continue;
        };
        let content = lines.by_ref().map(|(_, line)| line);
        let content: String = content
            .take_while(|line| *line != FENCE)
            .map(|line| format!("{line}\n"))
            .collect();
        match blocks.last_mut() {
            Some(block) if follows && info == "text" => block.shown = Some(content),
            _ if info == mark => blocks.push(Block {
                line: line + 1,
                commands: content,
                shown: None,
            }),
            _ => {}
        }
        follows = info == mark;
    }
    blocks
}

/// Printed by the script before each block.
const SEPARATOR: &str = "\u{1}";

/// Runs blocks as one script, and compares what each prints with the page.
fn run(name: &str, blocks: &[Block], folder: &Path, environment: &[(&str, &str)]) {
    let mut script = String::from("set -euo pipefail\n");
    for block in blocks {
        script += &format!("printf '{SEPARATOR}'\n{}", block.commands);
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_isomer")).parent();
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", programs.expect("a folder").display());
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(folder)
        .env("PATH", path)
        .envs(environment.iter().copied())
        .output()
        .expect("bash runs");
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{name}: {printed}\n{errors}");
    let printed: Vec<&str> = printed.split(SEPARATOR).skip(1).collect();
    assert_eq!(printed.len(), blocks.len(), "{name}: {printed:?}");
    for (block, printed) in blocks.iter().zip(printed) {
        if let Some(shown) = &block.shown {
            assert_eq!(printed, shown, "docs/{name}, line {}", block.line);
        }
    }
}

fn pages() -> Vec<(String, String)> {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut names = vec!["tutorial.md".to_owned()];
    for entry in fs::read_dir(docs.join("how-to")).expect("the folder") {
        let name = entry.expect("an entry").file_name();
        names.push(format!("how-to/{}", name.to_string_lossy()));
    }
    names.sort();
    let read = |name: String| {
        let page = fs::read_to_string(docs.join(&name)).expect("the page");
        (name, page)
    };
    names.into_iter().map(read).collect()
}

#[test]
fn the_commands_of_each_page_print_what_it_shows() {
    let mut count = 0;
    for (name, page) in pages() {
        let blocks = blocks(&page, "sh run");
        let folder = tempfile::tempdir().expect("a folder");
        // Backups are those of this engine.
        run(&name, &blocks, folder.path(), &[("ISOMER_ENGINE", "lsm")]);
        count += blocks.iter().filter(|block| block.shown.is_some()).count();
    }
    assert!(count >= 15, "only {count} blocks show what they print");
}

#[test]
fn the_requests_of_each_page_work_on_a_server() {
    const LOGIN: &str = r#"curl -sS --fail-with-body "$URL/v1/setup" -H 'Content-Type: application/json' \
  -d '{"token": "'"$SETUP_TOKEN"'", "user": "ada", "password": "analytical engine"}' > /dev/null
TOKEN=$(curl -sS --fail-with-body "$URL/v1/login" -H 'Content-Type: application/json' \
  -d '{"user": "ada", "password": "analytical engine"}' | sed 's/.*"token":"\([^"]*\)".*/\1/')
"#;
    let mut count = 0;
    for (name, page) in pages() {
        let mut blocks = blocks(&page, "sh server");
        if blocks.is_empty() {
            continue;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let settings = ["--set", "backups_folder=backups"];
        let server = Server::start(folder.path(), &settings, &[("ISOMER_ENGINE", "lsm")]);
        let link = server.line_with("/#setup=");
        let token = link.split('=').nth(1).unwrap_or_default().trim();
        count += blocks.len();
        let login = Block {
            line: 0,
            commands: LOGIN.to_owned(),
            shown: None,
        };
        blocks.insert(0, login);
        let environment = [("URL", server.url()), ("SETUP_TOKEN", token)];
        run(&name, &blocks, folder.path(), &environment);
    }
    assert!(count >= 4, "only {count} blocks send requests");
}

/// Each metric that the page about monitoring names, in its table and its alerts, is one that a server reports.
#[test]
fn the_metrics_of_the_page_about_monitoring_exist() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--without-authentication"];
    let server = Server::start(folder.path(), &flags, &[("ISOMER_ENGINE", "lsm")]);
    let output = Command::new("curl")
        .args(["-sS", "--fail", &format!("{}/metrics", server.url())])
        .output()
        .expect("curl runs");
    let reported = text(&output.stdout);
    let (_, page) = pages()
        .into_iter()
        .find(|(name, _)| name.ends_with("monitor.md"))
        .expect("the page");
    let is_part = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let mut count = 0;
    for word in page.split(|byte| !is_part(byte)) {
        if word.starts_with("isomer_") {
            let name = word.trim_end_matches("_bucket");
            let is_reported = reported.contains(&format!("# TYPE {name} "));
            assert!(is_reported, "`{word}` is not reported:\n{reported}");
            count += 1;
        }
    }
    assert!(count >= 15, "only {count} metrics are named");
}

#[test]
fn a_block_of_text_belongs_to_the_block_directly_above() {
    let page = "```sh run\na\n```\n\n```text\n1\n```\n```sh\nno\n```\n```text\nno\n```\n```sh run\nb\n```\nwords\n```text\nno\n```\n";
    let block = |line, commands: &str, shown: Option<&str>| Block {
        line,
        commands: commands.to_owned(),
        shown: shown.map(str::to_owned),
    };
    let expected = [block(1, "a\n", Some("1\n")), block(14, "b\n", None)];
    assert_eq!(blocks(page, "sh run"), expected);
}
