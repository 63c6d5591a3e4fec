//! The commands that begin with a colon.

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use isomer_db::json;

use super::{Next, Shell};
use crate::{output::Mode, stats};

/// What can be typed after a colon.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Help,
    Schema,
    Timer(Option<bool>),
    Mode(Option<Mode>),
    Explain(String),
    Profile(String),
    Param(Option<(String, String)>),
    Begin,
    Commit,
    Rollback,
    Quit,
}

/// Names and help, in the order in which they are listed.
pub const COMMANDS: [(&str, &str, &str); 11] = [
    (":help", "", "this list"),
    (
        ":schema",
        "",
        "labels, relationship types, properties, indexes, constraints, buckets",
    ),
    (":timer", "[on|off]", "whether each query's time is shown"),
    (":mode", "[table|json|jsonl|csv]", "how results are printed"),
    (":explain", "QUERY", "the plan of a query, which is not run"),
    (
        ":profile",
        "QUERY",
        "runs a query and prints its plan with rows and times",
    ),
    (
        ":param",
        "[NAME JSON]",
        "gives $NAME a value; alone lists them",
    ),
    (
        ":begin",
        "",
        "begins a transaction: the queries that follow are one",
    ),
    (
        ":commit",
        "",
        "makes the transaction's changes durable and visible",
    ),
    (":rollback", "", "drops the transaction's changes"),
    (":quit", "", "leaves; so does Ctrl-D"),
];

impl Command {
    /// Reads a command; its name may be cut short as long as it is one command's alone.
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
            ([], _) => bail!("there is no command {name}: `:help` lists them"),
            (several, _) => bail!("{name} may be {}", several.join(" or ")),
        };
        let none = |command: Self| {
            if rest.is_empty() {
                Ok(command)
            } else {
                bail!("{name} takes nothing after it")
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
                Err(_) => bail!("there is no mode `{rest}`: table, json, jsonl or csv"),
            },
            ":param" if rest.is_empty() => Ok(Self::Param(None)),
            ":param" => {
                let Some((name, value)) =
                    rest.split_once(|c: char| c.is_whitespace() || c == '=' || c == ':')
                else {
                    bail!("a value is missing: `:param name \"Ada\"`");
                };
                Ok(Self::Param(Some((
                    name.trim_start_matches('$').to_owned(),
                    value
                        .trim()
                        .trim_start_matches(['=', ':'])
                        .trim()
                        .to_owned(),
                ))))
            }
            _ if rest.is_empty() => bail!("a query is missing: `{name} MATCH (n) RETURN n`"),
            ":explain" => Ok(Self::Explain(rest.to_owned())),
            _ => Ok(Self::Profile(rest.to_owned())),
        }
    }

    /// Does it.
    pub fn run(self, shell: &mut Shell) -> Result<Next> {
        match self {
            Self::Help => help(shell),
            Self::Schema => print!("{}", stats::schema(&shell.db, shell.style)?),
            Self::Timer(on) => {
                shell.timer = on.unwrap_or(!shell.timer);
                println!("timer {}", if shell.timer { "on" } else { "off" });
            }
            Self::Mode(Some(mode)) => shell.mode = mode,
            Self::Mode(None) => {
                let name = shell
                    .mode
                    .to_possible_value()
                    .map(|value| value.get_name().to_owned())
                    .unwrap_or_default();
                println!("mode {name}");
            }
            Self::Explain(query) => shell.query(&format!("EXPLAIN {query}"))?,
            Self::Profile(query) => shell.query(&format!("PROFILE {query}"))?,
            Self::Param(None) => {
                for (name, value) in shell.params.iter() {
                    println!("${name} = {}", json::to_string(value)?);
                }
            }
            Self::Param(Some((name, text))) => {
                let value = json::parse(&text).with_context(|| {
                    format!("the value of ${name} must be JSON, for example 7 or \"Ada\"")
                })?;
                shell.params.insert(name, value);
            }
            Self::Begin if shell.transaction.is_some() => {
                bail!("a transaction is open already: `:commit` or `:rollback` it first")
            }
            Self::Begin => shell.transaction = Some(shell.db.begin()?),
            Self::Commit => match shell.transaction.take() {
                Some(transaction) => {
                    let version = transaction.commit()?;
                    println!("committed, version {version}");
                }
                None => bail!(
                    "no transaction is open: every query is one of its own (`:begin` opens one for several)"
                ),
            },
            Self::Rollback => match shell.transaction.take() {
                Some(transaction) => {
                    transaction.rollback();
                    println!("rolled back");
                }
                None => bail!("no transaction is open"),
            },
            Self::Quit => return Ok(Next::Quit),
        }
        Ok(Next::Go)
    }
}

fn help(shell: &Shell) {
    println!(
        "A query ends with a semicolon or an empty line. Ctrl-C stops a query, Tab completes names.\n"
    );
    for (name, arguments, about) in COMMANDS {
        let left = format!("{name} {arguments}");
        println!(
            "  {}{}  {about}",
            shell.style.bold(name),
            format_args!(
                " {arguments}{}",
                " ".repeat(34usize.saturating_sub(left.len()))
            )
        );
    }
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
            Command::Param(Some(("x".into(), "[1]".into())))
        );
        for wrong in [
            ":nosuch",
            ":mode xml",
            ":timer maybe",
            ":explain",
            ":quit now",
            ":",
            ":param x",
        ] {
            assert!(Command::parse(wrong).is_err(), "{wrong}");
        }
    }
}
