//! `isomer check`.

use std::{io::IsTerminal, ops::ControlFlow, path::PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use isomer_db::{Database, internals::DatabaseInternals as _};

use crate::{
    open,
    style::{counted, duration},
};

/// Options of `isomer check`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  isomer check people.db && echo all is well

Reads all stored data, verifies checksums, and compares keys, indexes, adjacency, counts and read views with the
records from which they are derived. Nothing is changed. Exit code 1 if something is damaged.")]
pub struct CheckOptions {
    /// The database
    pub db: PathBuf,
    /// Shows no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Runs the command.
pub fn command(options: &CheckOptions) -> Result<()> {
    let start = std::time::Instant::now();
    let db = open::open_existing(&options.db)?;
    let shown = !options.quiet && std::io::stderr().is_terminal();
    let bar = ProgressBar::with_draw_target(Some(1), bar_target(shown));
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {percent:>3}%  {bytes} of {total_bytes}  {eta} left")
    {
        bar.set_style(style.progress_chars("━╸─"));
    }
    let store = db.store()?;
    let mut damage = store.engine().verify(&mut |done, total| {
        bar.set_length(total.max(1));
        bar.set_position(done);
    })?;
    bar.finish_and_clear();
    if damage.is_empty() {
        let bar = ProgressBar::with_draw_target(None, bar_target(shown));
        bar.set_style(ProgressStyle::with_template(
            "{spinner} {msg}  {human_pos} records",
        )?);
        damage = isomer_check::check(&store, &mut |what, done| {
            bar.set_message(what);
            bar.set_position(done);
            ControlFlow::Continue(())
        })?;
        bar.finish_and_clear();
    }
    let records_are_sound = damage.is_empty();
    if records_are_sound {
        damage = views(&db)?;
    }
    drop(store);
    db.close()?;
    if damage.is_empty() {
        crate::style::line(&format!(
            "{} is sound (checked in {})",
            options.db.display(),
            duration(start.elapsed())
        ))?;
        return Ok(());
    }
    for found in damage.iter().take(100) {
        crate::style::line(found)?;
    }
    if records_are_sound {
        bail!(
            "{} in {}: the records are sound, and the views are rebuilt from them on demand",
            counted(damage.len() as u64, "damaged read view"),
            options.db.display()
        );
    }
    bail!(
        "{} in {}: restore it from a backup, or export what can still be read",
        counted(damage.len() as u64, "damaged place"),
        options.db.display()
    )
}

/// Compares read views, and their files, with the records. They are derived: wrong ones are dropped and rebuilt.
fn views(db: &Database) -> Result<Vec<String>> {
    let catalog = db.store()?.catalog();
    let found = db.views().check(&mut |_| {});
    for (kind, reason) in &found.skipped {
        let what = kind.describe(&catalog);
        crate::style::line(&format!("not compared: the view of {what}: {reason}"))?;
    }
    let wrong = found.wrong.iter().map(|kind| {
        format!(
            "the view of {} differed from the records: it was dropped",
            kind.describe(&catalog)
        )
    });
    let damaged = found.damaged.iter().map(|file| {
        format!(
            "views/{} was damaged and is removed: {}",
            file.name, file.reason
        )
    });
    Ok(wrong.chain(damaged).collect())
}

fn bar_target(shown: bool) -> ProgressDrawTarget {
    if shown {
        ProgressDrawTarget::stderr_with_hz(10)
    } else {
        ProgressDrawTarget::hidden()
    }
}
