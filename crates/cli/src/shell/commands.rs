//! The commands that begin with a colon.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use isomer_db::{Map, Value, json};

use super::session::{Next, Shell};
use crate::{output::Mode, stats};

/// A command of the shell.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Help,
    Schema,
    Timer(Option<bool>),
    Mode(Option<Mode>),
    Explain(String),
    Profile(String),
    Param(Param),
    Source(PathBuf),
    Begin,
    Commit,
    Rollback,
    Quit,
}

/// The action of `:param`.
#[derive(Clone, Debug, PartialEq)]
pub enum Param {
    List,
    Clear,
    /// A name, and JSON or an expression.
    Set(String, String),
    /// JSON or an expression that gives a map of parameters.
    SetAll(String),
}

/// Names and help, in the order in which they are listed.
pub const COMMANDS: [(&str, &str, &str); 12] = [
    (":help", "", "this list"),
    (
        ":schema",
        "",
        "labels, relationship types, properties, indexes, constraints, buckets",
    ),
    (
        ":timer",
        "[on|off]",
        "switches the display of each query's time",
    ),
    (":mode", "[table|json|jsonl|csv]", "sets the output format"),
    (
        ":explain",
        "QUERY",
        "shows the plan of a query without running it",
    ),
    (
        ":profile",
        "QUERY",
        "runs a query and prints its plan with row counts and times",
    ),
    (
        ":param",
        "[NAME VALUE]",
        "sets the parameter $NAME to JSON or an expression; without arguments lists them, `clear` removes them",
    ),
    (":source", "FILE", "runs a script"),
    (
        ":begin",
        "",
        "begins a transaction for the following queries",
    ),
    (":commit", "", "commits the transaction"),
    (":rollback", "", "rolls the transaction back"),
    (":quit", "", "leaves the shell; so does Ctrl-D"),
];

impl Command {
    /// Parses a command; its name may be abbreviated to an unambiguous prefix.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim().trim_end_matches(';').trim_end();
        let (name, rest) = text
            .split_once(char::is_whitespace)
            .map_or((text, ""), |(name, rest)| (name, rest.trim()));
        let fitting: Vec<&str> = COMMANDS
            .iter()
            .map(|(command, _, _)| *command)
            .filter(|command| command.starts_with(name) && name.len() > 1)
            .collect();
        let name = match (
            fitting.as_slice(),
            COMMANDS.iter().find(|(command, _, _)| *command == name),
        ) {
            (_, Some((exact, _, _))) => *exact,
            ([only], _) => *only,
            ([], _) if name == ":exit" || name == ":q" => ":quit",
            ([], _) if name == ":params" => ":param",
            ([], _) => bail!("unknown command {name}: `:help` lists the commands"),
            (several, _) => bail!("{name} may be {}", several.join(" or ")),
        };
        let none = |command: Self| {
            if rest.is_empty() {
                Ok(command)
            } else {
                bail!("{name} takes no argument")
            }
        };
        match name {
            ":help" => none(Self::Help),
            ":schema" => none(Self::Schema),
            ":begin" => none(Self::Begin),
            ":commit" => none(Self::Commit),
            ":rollback" => none(Self::Rollback),
            ":quit" => none(Self::Quit),
            ":timer" => match rest {
                "" => Ok(Self::Timer(None)),
                "on" => Ok(Self::Timer(Some(true))),
                "off" => Ok(Self::Timer(Some(false))),
                other => bail!("`{other}` is neither on nor off"),
            },
            ":mode" if rest.is_empty() => Ok(Self::Mode(None)),
            ":mode" => match Mode::from_str(rest, true) {
                Ok(mode) => Ok(Self::Mode(Some(mode))),
                Err(_) => bail!("unknown mode `{rest}`: use table, json, jsonl or csv"),
            },
            ":param" => Param::parse(rest).map(Self::Param),
            ":source" if rest.is_empty() => bail!("a file is missing: `:source script.cypher`"),
            ":source" => Ok(Self::Source(rest.into())),
            _ if rest.is_empty() => bail!("a query is missing: `{name} MATCH (n) RETURN n`"),
            ":explain" => Ok(Self::Explain(rest.to_owned())),
            _ => Ok(Self::Profile(rest.to_owned())),
        }
    }

    /// The equivalent command for these statements of other shells: `BEGIN`, `COMMIT`, `ROLLBACK`, each with or without
    /// `TRANSACTION`.
    pub fn of_words(text: &str) -> Option<Self> {
        let words: Vec<String> = isomer_cypher::tokenize(text)
            .iter()
            .take(4)
            .map(|token| token.span.slice(text).to_ascii_uppercase())
            .filter(|word| !word.is_empty())
            .collect();
        let command = match words.first()?.as_str() {
            "BEGIN" => Self::Begin,
            "COMMIT" => Self::Commit,
            "ROLLBACK" => Self::Rollback,
            _ => return None,
        };
        match &words[1..] {
            [] => Some(command),
            [word] if word == "TRANSACTION" => Some(command),
            _ => None,
        }
    }

    /// Runs it.
    pub fn run(self, shell: &mut Shell) -> Result<Next> {
        match self {
            Self::Help => help(shell)?,
            Self::Schema => say!("{}", stats::schema(&shell.db, shell.style)?.trim_end()),
            Self::Timer(on) => {
                shell.timer = on.unwrap_or(!shell.timer);
                say!("timer {}", if shell.timer { "on" } else { "off" });
            }
            Self::Mode(Some(mode)) => shell.mode = mode,
            Self::Mode(None) => {
                let name = shell
                    .mode
                    .to_possible_value()
                    .map(|value| value.get_name().to_owned())
                    .unwrap_or_default();
                say!("mode {name}");
            }
            Self::Explain(query) => shell.query(&format!("EXPLAIN {query}"))?,
            Self::Profile(query) => shell.query(&format!("PROFILE {query}"))?,
            Self::Param(Param::List) => {
                for (name, value) in shell.params.iter() {
                    say!("${name} = {}", json::to_string(value)?);
                }
            }
            Self::Param(Param::Clear) => shell.params = Map::new(),
            Self::Param(Param::Set(name, text)) => {
                let value = shell
                    .evaluate(&text)
                    .with_context(|| format!("the value of ${name}"))?;
                shell.params.insert(name, value);
            }
            Self::Param(Param::SetAll(text)) => match shell.evaluate(&text)? {
                Value::Map(map) => {
                    for (name, value) in map.iter() {
                        shell.params.insert(name.clone(), value.clone());
                    }
                }
                other => bail!("the parameters are a map, not a {}", other.type_name()),
            },
            Self::Source(path) => {
                let outcome = shell.run_file(&path, shell.on_error);
                return outcome.map(|_| Next::Go);
            }
            Self::Begin | Self::Commit | Self::Rollback if shell.is_single => bail!(
                "the whole run is one transaction (--single-transaction): scripts cannot begin or end one"
            ),
            Self::Begin if shell.transaction.is_some() => {
                bail!("a transaction is open already: `:commit` or `:rollback` it first")
            }
            Self::Begin => shell.begin()?,
            Self::Commit => match shell.transaction.take() {
                Some(transaction) => {
                    let version = transaction.commit()?;
                    shell.say(&format!("committed, version {version}"))?;
                }
                None => bail!(
                    "no transaction is open: every query runs in its own (`:begin` opens one for several)"
                ),
            },
            Self::Rollback => match shell.undo() {
                Some("") => shell.say("rolled back")?,
                // Also where a run sums up its changes: this is not what was asked for.
                Some(except) => report!("rolled back{except}"),
                None => bail!("no transaction is open"),
            },
            Self::Quit => return Ok(Next::Quit),
        }
        Ok(Next::Go)
    }
}

impl Param {
    /// `name value`, `name = value`, `name => value` or `{name: value}`, as in other shells.
    fn parse(text: &str) -> Result<Self> {
        match text {
            "" | "list" => return Ok(Self::List),
            "clear" => return Ok(Self::Clear),
            map if map.starts_with('{') => return Ok(Self::SetAll(map.to_owned())),
            _ => {}
        }
        let split = text.split_once(|c: char| c.is_whitespace() || c == '=' || c == ':');
        let (name, value) = split.unwrap_or((text, ""));
        // The separator may be two characters, and blanks may surround it.
        let value = value.trim_start();
        let value = ["=>", "=", ":", ">"]
            .into_iter()
            .find_map(|sign| value.strip_prefix(sign))
            .unwrap_or(value)
            .trim();
        let name = name.trim_start_matches('$').trim_matches('`');
        if name.is_empty() || value.is_empty() {
            bail!("a name or value is missing: `:param name \"Ada\"` or `:param day => date()`");
        }
        Ok(Self::Set(name.to_owned(), value.to_owned()))
    }
}

fn help(shell: &Shell) -> Result<()> {
    say!(
        "A statement ends with a semicolon, also over several lines; an empty line ends nothing.\nCtrl-C stops a statement, Tab completes names.\n"
    );
    for (name, arguments, about) in COMMANDS {
        let left = format!("{name} {arguments}");
        say!(
            "  {}{}  {about}",
            shell.style.bold(name),
            format_args!(
                " {arguments}{}",
                " ".repeat(34usize.saturating_sub(left.len()))
            )
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_whole_or_cut_short() {
        assert_eq!(Command::parse(":help").expect("a command"), Command::Help);
        assert_eq!(
            Command::parse(":roll").expect("a command"),
            Command::Rollback
        );
        assert_eq!(
            Command::parse(":timer off").expect("a command"),
            Command::Timer(Some(false))
        );
        assert_eq!(
            Command::parse(":mode JSON").expect("a command"),
            Command::Mode(Some(Mode::Json))
        );
        assert_eq!(
            Command::parse(":explain RETURN 1;").expect("a command"),
            Command::Explain("RETURN 1".into())
        );
        assert_eq!(
            Command::parse(":param $x = [1]").expect("a command"),
            Command::Param(Param::Set("x".into(), "[1]".into()))
        );
        for text in [
            "day date()",
            "day => date()",
            "day=>date()",
            "$day: date()",
            "`day` =  date()",
        ] {
            let set = Param::Set("day".into(), "date()".into());
            assert_eq!(Param::parse(text).expect("a parameter"), set, "{text}");
        }
        assert_eq!(
            Command::parse(":param x => 'a = b: c'").expect("a command"),
            Command::Param(Param::Set("x".into(), "'a = b: c'".into()))
        );
        assert_eq!(
            Command::parse(":params {a: 1};").expect("a command"),
            Command::Param(Param::SetAll("{a: 1}".into()))
        );
        assert_eq!(Param::parse("clear").expect("a command"), Param::Clear);
        for wrong in [
            ":nosuch",
            ":mode xml",
            ":timer maybe",
            ":explain",
            ":quit now",
            ":",
            ":param x",
            ":param x =>",
            ":source",
        ] {
            assert!(Command::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn statements_of_other_shells_are_commands() {
        for (text, command) in [
            ("BEGIN", Some(Command::Begin)),
            ("begin transaction", Some(Command::Begin)),
            ("COMMIT // all", Some(Command::Commit)),
            ("Rollback", Some(Command::Rollback)),
            ("BEGIN WORK", None),
            ("RETURN 1", None),
            ("COMMIT (n)", None),
        ] {
            assert_eq!(Command::of_words(text), command, "{text}");
        }
    }
}
