//! Parser and printer of golden scripts.

use std::fmt;

use anyhow::{Result, bail};

/// A script: comments and blocks in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Blocks, each with the lines before it.
    pub blocks: Vec<Block>,
    /// Lines after the last block.
    rest: Vec<String>,
}

/// Commands, and their common output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Comments and empty lines before the first command.
    before: Vec<String>,
    /// The commands as written, including comments between them.
    source: Vec<String>,
    /// The commands.
    pub commands: Vec<Command>,
    /// The expected output: whole lines, each terminated by a line feed.
    pub expected: String,
    /// The line of the first command, from 1.
    pub line: usize,
}

/// One command of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The session's name; empty in scripts with one unnamed session.
    pub session: String,
    /// The command, its continuation lines joined by line feeds.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
}

impl Script {
    /// Parses a script. The first line must be a comment that states its purpose.
    pub fn parse(text: &str) -> Result<Self> {
        if !text.starts_with("# ") {
            bail!("open with a sentence on what the script shows: `# …`");
        }
        let mut lines = text.lines().enumerate().peekable();
        let mut blocks = Vec::new();
        let mut before = Vec::new();
        while let Some((at, line)) = lines.next() {
            if line.is_empty() || line.starts_with('#') {
                before.push(line.to_owned());
                continue;
            }
            let mut block = Block {
                before: std::mem::take(&mut before),
                source: Vec::new(),
                commands: Vec::new(),
                expected: String::new(),
                line: at + 1,
            };
            let mut next = Some((at, line));
            loop {
                let Some((at, line)) = next else {
                    bail!("line {}: the block has no `---`", block.line);
                };
                if line == "---" {
                    break;
                }
                block.source.push(line.to_owned());
                if let Some(more) = line.strip_prefix("  ") {
                    let Some(last) = block.commands.last_mut() else {
                        bail!("line {}: continuation without a command", at + 1)
                    };
                    last.text.push('\n');
                    last.text.push_str(more);
                } else if !line.is_empty() && !line.starts_with('#') {
                    block.commands.push(command(line, at + 1)?);
                }
                next = lines.next();
            }
            while let Some((_, line)) = lines.next_if(|(_, line)| !line.is_empty()) {
                block.expected.push_str(line);
                block.expected.push('\n');
            }
            blocks.push(block);
        }
        if blocks.is_empty() {
            bail!("there is no command in it");
        }
        Ok(Self {
            blocks,
            rest: before,
        })
    }
}

fn command(line: &str, number: usize) -> Result<Command> {
    let (session, text) = match line.split_once("> ") {
        Some((session, text)) if session.chars().all(char::is_alphanumeric) => (session, text),
        _ => bail!("line {number}: a command is `session> text`, not {line:?}"),
    };
    Ok(Command {
        session: session.to_owned(),
        text: text.to_owned(),
        line: number,
    })
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for block in &self.blocks {
            for line in block.before.iter().chain(&block.source) {
                writeln!(f, "{line}")?;
            }
            write!(f, "---\n{}", block.expected)?;
        }
        self.rest.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# Two sessions.

a> begin
# in between
a> match (n)
  return n
---
a: 1

# Later.
> get x
---
";

    #[test]
    fn a_script_is_written_as_it_was_read() {
        let script = Script::parse(TEXT).expect("the script is well formed");
        assert_eq!(script.to_string(), TEXT);
        assert_eq!(script.blocks.len(), 2);
        assert_eq!(script.blocks[0].commands[1].text, "match (n)\nreturn n");
        assert_eq!(script.blocks[0].line, 3);
        assert_eq!(script.blocks[1].commands[0].session, "");
    }

    #[test]
    fn an_invalid_script_is_rejected() {
        for (text, message) in [
            ("a> x\n---\n", "open with a sentence"),
            ("# S.\n", "no command"),
            ("# S.\na> x\n", "no `---`"),
            ("# S.\nwords without a session\n---\n", "session> text"),
            ("# S.\n  more\n---\n", "without a command"),
        ] {
            let error = Script::parse(text).expect_err(text).to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
