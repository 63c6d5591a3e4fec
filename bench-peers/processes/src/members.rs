//! The other processes: this program, started again, which does what it reads, one order per line.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::{Store, key, open};

/// Another process that has the store open.
pub struct Member {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Member {
    /// Starts it; returns when it has the store open.
    pub fn start(system: &str, folder: &Path, who: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["member", system])
            .arg(folder)
            .arg(who)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().context("a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut member = Self {
            child,
            orders,
            answers,
        };
        member.heard()?;
        Ok(member)
    }

    pub fn say(&mut self, order: &str) -> Result<()> {
        Ok(writeln!(self.orders, "{order}")?)
    }

    pub fn heard(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("a process of the benchmark ended: {}", self.child.wait()?);
        }
        Ok(line.trim_end().to_owned())
    }

    pub fn ask(&mut self, order: &str) -> Result<String> {
        self.say(order)?;
        self.heard()
    }

    pub fn end(mut self) -> Result<()> {
        drop(self.orders);
        let status = self.child.wait()?;
        if !status.success() {
            bail!("a process of the benchmark failed: {status}");
        }
        Ok(())
    }
}

/// Writes synced until the time is over; returns how often.
pub fn write_for(store: &dyn Store, who: &str, time: Duration) -> Result<u64> {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < time {
        store.put(&mut std::iter::once((
            format!("{who}-{count}"),
            count as i64,
        )))?;
        count += 1;
    }
    Ok(count)
}

/// Acts as a member until there are no more orders.
pub fn serve() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(2).collect();
    let [system, folder, who] = &arguments[..] else {
        bail!("a member needs a system, a folder and a name");
    };
    let store = open(system, Path::new(folder))?;
    let mut answers = std::io::stdout().lock();
    writeln!(answers, "open")?;
    answers.flush()?;
    for order in std::io::stdin().lock().lines() {
        let order = order?;
        let (what, number) = order.split_once(' ').context("an order has a number")?;
        let number: u64 = number.parse()?;
        let answer = match what {
            "write" => write_for(&*store, who, Duration::from_millis(number))?,
            "once" => {
                store.put(&mut std::iter::once((
                    format!("{who}-{number}"),
                    number as i64,
                )))?;
                number
            }
            "read" => {
                store
                    .get(&key(number))?
                    .context("every pair that is read was loaded")?;
                number
            }
            _ => bail!("unknown order `{order}`"),
        };
        writeln!(answers, "{answer}")?;
        answers.flush()?;
    }
    Ok(())
}
