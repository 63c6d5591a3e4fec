//! Random concurrent transactions across all models, recorded while they run.
//!
//! A client keeps several transactions open at once and runs a random operation in a random one of them, so
//! that they overlap regardless of the number of cores, and a run with one client is reproducible from its
//! seed.

use std::{fmt, thread};

use anyhow::{Context, Result, anyhow};

use super::history::{Element, Event, History, ObjectId, Outcome, Recorder, Recording};
use crate::random::Random;

/// Kinds of shared objects, by model and read path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A list in the value of a bucket's key.
    BucketList,
    /// A list in a document's property.
    PropertyList,
    /// A value of a bucket's key, overwritten blind.
    BucketRegister,
    /// A document's property, overwritten blind.
    PropertyRegister,
    /// The keys of a bucket in a range.
    BucketRange,
    /// The relationships of a hub.
    Adjacency,
    /// Documents found through an ordered index.
    Index,
    /// Relationships found through an ordered index.
    RelationshipIndex,
    /// Nodes with a label.
    Label,
    /// Documents that match a filter without an index.
    Scan,
}

/// How a kind is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    List,
    Register,
    Set,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::BucketList,
        Self::PropertyList,
        Self::BucketRegister,
        Self::PropertyRegister,
        Self::BucketRange,
        Self::Adjacency,
        Self::Index,
        Self::RelationshipIndex,
        Self::Label,
        Self::Scan,
    ];

    fn shape(self) -> Shape {
        match self {
            Self::BucketList | Self::PropertyList => Shape::List,
            Self::BucketRegister | Self::PropertyRegister => Shape::Register,
            _ => Shape::Set,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::BucketList => "bucket list",
            Self::PropertyList => "property list",
            Self::BucketRegister => "bucket register",
            Self::PropertyRegister => "property register",
            Self::BucketRange => "bucket range",
            Self::Adjacency => "relationships of hub",
            Self::Index => "index",
            Self::RelationshipIndex => "relationship index",
            Self::Label => "label",
            Self::Scan => "scan",
        }
    }
}

/// Why an operation or a commit did not happen.
#[derive(Debug)]
pub enum Failure {
    /// A conflict.
    Retry,
    /// A commit with an unknown outcome.
    Unknown,
    /// A violation.
    Broken(anyhow::Error),
}

/// A database under test. Objects are numbered; the numbers of one call to [`Subject::prepare`] are used
/// after it.
pub trait Subject: Sync {
    /// The kinds of objects that it supports.
    fn kinds(&self) -> &[Kind] {
        &Kind::ALL
    }
    /// Creates what must exist before objects `from..to` are used.
    fn prepare(&self, from: u64, to: u64) -> Result<()>;
    /// A transaction.
    fn begin(&self, access: Access) -> Result<Box<dyn Steps + '_>>;
}

/// Access mode of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read-only.
    Read,
    /// Read-write.
    Write,
}

/// An open transaction: the operations on an object of a kind.
#[allow(clippy::missing_errors_doc)] // all of them: a conflict, or a violation
pub trait Steps {
    /// Reads a list.
    fn list(&mut self, kind: Kind, object: u64) -> Result<Vec<Element>, Failure>;
    /// Writes a list that was read before.
    fn put_list(&mut self, kind: Kind, object: u64, elements: &[Element]) -> Result<(), Failure>;
    /// Reads a register.
    fn register(&mut self, kind: Kind, object: u64) -> Result<Option<Element>, Failure>;
    /// Writes a register without reading it.
    fn put_register(&mut self, kind: Kind, object: u64, value: Element) -> Result<(), Failure>;
    /// Reads the members of a set.
    fn members(&mut self, kind: Kind, object: u64) -> Result<Vec<Element>, Failure>;
    /// Adds to a set without reading it.
    fn add(&mut self, kind: Kind, object: u64, element: Element) -> Result<(), Failure>;
    /// Removes a member that was read.
    fn remove(&mut self, kind: Kind, object: u64, element: Element) -> Result<(), Failure>;
    /// Commits or rolls back.
    fn commit(self: Box<Self>) -> Result<(), Failure>;
}

/// Size and concurrency of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Total number of transactions.
    pub transactions: u32,
    /// Objects of each kind in use at one time: the fewer, the more conflicts.
    pub objects: u64,
    /// Threads.
    pub clients: u32,
    /// Transactions that each thread keeps open.
    pub open: usize,
    /// Number of transactions after which new objects are used, so that sets stay small.
    pub round: u32,
    /// The seed.
    pub seed: u64,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            transactions,
            objects,
            clients,
            open,
            seed,
            ..
        } = self;
        write!(
            f,
            "{transactions} transactions, {objects} objects a kind, {clients} threads × {open} open, seed {seed}"
        )
    }
}

/// Runs the plan and returns the history. Ends with one transaction per object that reads everything.
pub fn run(subject: &dyn Subject, plan: Plan) -> Result<History> {
    let recorder = Recorder::new();
    let rounds = u64::from(plan.transactions.div_ceil(plan.round));
    for round in 0..rounds {
        subject
            .prepare(round * plan.objects, (round + 1) * plan.objects)
            .context("preparing the objects")?;
    }
    thread::scope(|scope| {
        let clients: Vec<_> = (0..plan.clients)
            .map(|client| {
                let recorder = &recorder;
                scope.spawn(move || Client::new(subject, recorder, plan, client).run())
            })
            .collect();
        clients
            .into_iter()
            .try_for_each(|client| client.join().map_err(|_| anyhow!("a client panicked"))?)
    })?;
    read_all(subject, &recorder, rounds * plan.objects)?;
    Ok(recorder.finish())
}

/// Reads every object once, so that the order of the final versions is known.
fn read_all(subject: &dyn Subject, recorder: &Recorder, objects: u64) -> Result<()> {
    for object in 0..objects {
        let mut recording = recorder.begin();
        let mut steps = subject.begin(Access::Read)?;
        for &kind in subject.kinds() {
            let event = read(&mut *steps, recorder, kind, object)
                .map_err(|failure| anyhow!("the last read of {kind:?}: {failure:?}"))?;
            recording.push(event);
        }
        recorder.end(recording, Outcome::Committed);
    }
    Ok(())
}

fn object_id(recorder: &Recorder, kind: Kind, object: u64) -> ObjectId {
    recorder.object(&format!("{} {object}", kind.name()))
}

fn read(
    steps: &mut dyn Steps,
    recorder: &Recorder,
    kind: Kind,
    object: u64,
) -> Result<Event, Failure> {
    let id = object_id(recorder, kind, object);
    Ok(match kind.shape() {
        Shape::List => Event::List {
            object: id,
            seen: steps.list(kind, object)?,
        },
        Shape::Register => Event::Read {
            object: id,
            seen: steps.register(kind, object)?,
        },
        Shape::Set => Event::Members {
            object: id,
            seen: steps.members(kind, object)?,
        },
    })
}

struct Client<'a> {
    subject: &'a dyn Subject,
    recorder: &'a Recorder,
    plan: Plan,
    random: Random,
    open: Vec<OpenTransaction<'a>>,
}

/// A transaction between two of its operations.
struct OpenTransaction<'a> {
    steps: Box<dyn Steps + 'a>,
    recording: Recording,
    access: Access,
    /// First object of its round.
    first: u64,
    left: u32,
    gives_up: bool,
}

impl<'a> Client<'a> {
    fn new(subject: &'a dyn Subject, recorder: &'a Recorder, plan: Plan, client: u32) -> Self {
        let random = Random::new(
            plan.seed
                .wrapping_mul(1_000)
                .wrapping_add(u64::from(client)),
        );
        Self {
            subject,
            recorder,
            plan,
            random,
            open: Vec::new(),
        }
    }

    fn run(mut self) -> Result<()> {
        loop {
            while self.open.len() < self.plan.open && self.recorder.ended() < self.plan.transactions
            {
                self.begin()?;
            }
            if self.open.is_empty() {
                return Ok(());
            }
            let at = self.random.below(self.open.len() as u64) as usize;
            if self.open[at].left == 0 {
                let ended = self.open.swap_remove(at);
                self.end(ended)?;
                continue;
            }
            match self.run_operation(at) {
                Ok(()) => self.open[at].left -= 1,
                Err(Failure::Retry) => {
                    let lost = self.open.swap_remove(at);
                    drop(lost.steps);
                    self.recorder.end(lost.recording, Outcome::Aborted);
                }
                Err(Failure::Unknown) => {
                    return Err(anyhow!("an operation returned an unknown outcome"));
                }
                Err(Failure::Broken(error)) => return Err(error.context("an operation")),
            }
        }
    }

    fn begin(&mut self) -> Result<()> {
        let round = u64::from(self.recorder.ended() / self.plan.round)
            .min(u64::from((self.plan.transactions - 1) / self.plan.round));
        let access = if self.random.below(5) == 0 {
            Access::Read
        } else {
            Access::Write
        };
        let recording = self.recorder.begin();
        let steps = self.subject.begin(access)?;
        let left = 1 + self.random.below(4) as u32;
        let gives_up = access == Access::Write && self.random.below(20) == 0;
        self.open.push(OpenTransaction {
            steps,
            recording,
            access,
            first: round * self.plan.objects,
            left,
            gives_up,
        });
        Ok(())
    }

    fn run_operation(&mut self, at: usize) -> Result<(), Failure> {
        let Self {
            subject,
            recorder,
            random,
            plan,
            open,
            ..
        } = self;
        let open = &mut open[at];
        let object = open.first + random.below(plan.objects);
        let kind = *random.pick(subject.kinds());
        let id = object_id(recorder, kind, object);
        if open.access == Access::Read || random.once_in(2) {
            open.recording
                .push(read(&mut *open.steps, recorder, kind, object)?);
            return Ok(());
        }
        let OpenTransaction {
            steps, recording, ..
        } = open;
        match kind.shape() {
            Shape::List => {
                let mut seen = steps.list(kind, object)?;
                recording.push(Event::List {
                    object: id,
                    seen: seen.clone(),
                });
                let element = recorder.element();
                seen.push(element);
                recording.push(Event::Append {
                    object: id,
                    element,
                });
                steps.put_list(kind, object, &seen)
            }
            Shape::Register => {
                let value = recorder.element();
                recording.push(Event::Write { object: id, value });
                steps.put_register(kind, object, value)
            }
            Shape::Set if random.once_in(4) => {
                let seen = steps.members(kind, object)?;
                let chosen = (!seen.is_empty()).then(|| *random.pick(&seen));
                recording.push(Event::Members { object: id, seen });
                let Some(element) = chosen else { return Ok(()) };
                recording.push(Event::Remove {
                    object: id,
                    element,
                });
                steps.remove(kind, object, element)
            }
            Shape::Set => {
                let element = recorder.element();
                recording.push(Event::Add {
                    object: id,
                    element,
                });
                steps.add(kind, object, element)
            }
        }
    }

    fn end(&self, open: OpenTransaction<'_>) -> Result<()> {
        if open.gives_up {
            drop(open.steps);
            self.recorder.end(open.recording, Outcome::Aborted);
            return Ok(());
        }
        let outcome = match open.steps.commit() {
            Ok(()) => Outcome::Committed,
            Err(Failure::Retry) => Outcome::Aborted,
            Err(Failure::Unknown) => Outcome::Unknown,
            Err(Failure::Broken(error)) => return Err(error.context("a commit")),
        };
        self.recorder.end(open.recording, outcome);
        Ok(())
    }
}
