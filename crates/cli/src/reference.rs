//! The pages `docs/reference/cli.md` and `docs/reference/settings.md` are what the command line and the table of
//! settings say. `cargo xtask reference` (`UPDATE_GOLDEN=1`) writes them.

use std::{fmt::Write as _, fs, path::PathBuf};

use clap::{Arg, Command, CommandFactory};
use isomer_server::config::SETTINGS;

use crate::{Cli, EVERY_COMMAND};

/// The sections of the settings with their titles, in the order of the page.
const SECTIONS: [(&str, &str); 5] = [
    ("", "General"),
    ("tls", "TLS"),
    ("log", "Logs"),
    ("traces", "Traces"),
    ("limits", "Limits"),
];

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// How an argument is written on the command line: `-p, --param <NAME=JSON>`.
fn written(argument: &Arg) -> String {
    let long = argument.to_string();
    match argument.get_short() {
        Some(short) if !argument.is_positional() => format!("-{short}, {long}"),
        _ => long,
    }
}

/// Its help text with the default and the possible values, as `--help` shows them.
fn explained(argument: &Arg) -> String {
    let mut text = argument
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    if !argument.get_action().takes_values() {
        return text;
    }
    let values: Vec<_> = argument
        .get_possible_values()
        .into_iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        text += &format!("; one of {}", values.join(", "));
    }
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if !defaults.is_empty() && !argument.is_hide_default_value_set() {
        text += &format!("; default: {}", defaults.join(", "));
    }
    text
}

/// A table of arguments; nothing if there are none.
fn arguments<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let rows: Vec<_> = arguments
        .filter(|argument| !argument.is_hide_set())
        .filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
        .map(|argument| {
            let (written, explained) = (cell(&written(argument)), cell(&explained(argument)));
            format!("| `{written}` | {explained} |\n")
        })
        .collect();
    if !rows.is_empty() {
        *page += "\n| argument | meaning |\n|---|---|\n";
        page.extend(rows);
    }
}

/// A command and those below it.
fn command(page: &mut String, name: &str, of: &Command) {
    let level = "#".repeat(name.split(' ').count());
    let about = of.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n{level} {name}\n\n{about}.\n");
    let own = of
        .get_arguments()
        .filter(|argument| argument.get_help_heading() != Some(EVERY_COMMAND));
    if !of.is_subcommand_required_set() {
        let mut of = of.clone();
        let usage = of.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").trim();
        let _ = write!(page, "\n```text\n{usage}\n```\n");
        arguments(page, own);
    }
    if let Some(more) = of.get_after_help() {
        let _ = write!(page, "\n```text\n{}\n```\n", more.to_string().trim_end());
    }
    for below in of.get_subcommands().filter(|one| one.get_name() != "help") {
        command(page, &format!("{name} {}", below.get_name()), below);
    }
}

fn command_line() -> String {
    let mut root = Cli::command();
    // Gives each command its full name and the global options.
    root.build();
    let mut page = String::from(
        "# Command line\n\nEach command of `isomer`, as `isomer COMMAND --help` describes it. `cargo xtask reference` \
         generates this page.\n\nExit codes: 0 done, 1 an error (on standard error), 2 wrong usage, 141 the reader of \
         standard output closed it\nearly.\n\n## Options of every command\n",
    );
    let is_global = |argument: &&Arg| argument.get_help_heading() == Some(EVERY_COMMAND);
    arguments(&mut page, root.get_arguments().filter(is_global));
    for one in root
        .get_subcommands()
        .filter(|one| one.get_name() != "help")
    {
        command(&mut page, &format!("isomer {}", one.get_name()), one);
    }
    page
}

fn settings() -> String {
    let mut page = String::from(
        "# Settings\n\nThe settings of `isomer serve`. A flag overrides an environment variable, which overrides the file \
         (`--config`).\n\n- `limits.body` is `body` in the table `[limits]` of the file.\n- Its variable is \
         `ISOMER_LIMITS_BODY`, its flag `--set limits.body=32MiB`.\n- Sizes are written like `64MiB`, times like `30s`, \
         `5min` or `12h`. A list has commas in a variable or flag.\n- `isomer config print --origin` prints each value \
         and where it comes from; `isomer config check` checks them.\n\n`cargo xtask reference` generates this page.\n",
    );
    for (section, title) in SECTIONS {
        let _ = write!(
            page,
            "\n## {title}\n\n| setting | default | meaning |\n|---|---|---|\n"
        );
        for setting in SETTINGS {
            let (own, _) = setting.key.split_once('.').unwrap_or(("", setting.key));
            if own != section {
                continue;
            }
            let default = match setting.default {
                "" => String::new(),
                text => format!("`{text}`"),
            };
            let (key, help) = (setting.key, cell(setting.help));
            let _ = writeln!(page, "| `{key}` | {default} | {help} |");
        }
    }
    page
}

/// Compares a generated page with the committed one, or writes it.
fn check(name: &str, page: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, page).expect("the page can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/reference/{name} is not current: `cargo xtask reference` writes it"
    );
}

#[test]
fn the_page_of_the_command_line_is_current() {
    let page = command_line();
    assert!(page.contains("\n## isomer query\n") && page.contains("\n### isomer import nodes\n"));
    check("cli.md", &page);
}

#[test]
fn the_page_of_the_settings_is_current() {
    let page = settings();
    for setting in SETTINGS {
        let row = format!("| `{}` |", setting.key);
        assert!(page.contains(&row), "no section for `{}`", setting.key);
    }
    check("settings.md", &page);
}
