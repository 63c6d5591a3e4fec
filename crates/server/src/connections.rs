//! Which connections are open, from which addresses, and which of them is closed to make room for a new one.
//!
//! Unauthenticated clients can open connections and send nothing. So a connection is *unknown* until a request over
//! it was admitted (HTTP) or a user has logged in over it (Bolt), and unknown connections are evicted for new ones:
//! if the limit of all connections or that of one address is reached, the address with the most unknown connections
//! loses its oldest one. A client that sends its first request at once is known after a few round trips; until then,
//! a flood evicts its connection only from addresses that have no more of them each. If all connections are known,
//! the oldest HTTP connection between two requests is closed. If all of them have requests in progress, a new one
//! gets one of a few slots that serve `/health` alone, or is refused.
//!
//! IPv6 addresses count by their first 64 bits, which is what one customer gets. Memory: about 250 bytes per
//! connection.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

/// Slots beyond the limit in which `/health` is answered.
const HEALTH_SLOTS: usize = 16;
/// Unknown connections of an address that are searched for one without a request in progress.
const MAX_SEARCHED_CONNECTIONS: usize = 64;
/// Minimum interval between two log messages about a limit.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// All open connections. Opening and closing one takes a lock and O(log n).
#[derive(Debug)]
pub struct Connections {
    most: usize,
    most_of_address: usize,
    state: Mutex<State>,
    /// Notified when the last connection has ended.
    ended: Notify,
    counts: Counts,
    log_of_all: Paced,
    log_of_address: Paced,
    log_of_slow: Paced,
}

/// Counters of limits.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections that were closed to make room for new ones.
    pub evicted: AtomicU64,
    /// Connections that were refused.
    pub refused: AtomicU64,
    /// How many of both were due to the limit of one address.
    pub of_address: AtomicU64,
    /// Connections that were closed because a request, a login or its next part did not come in time.
    pub slow: AtomicU64,
}

/// Order in which addresses lose connections: the number of unknown ones, then the age of the oldest.
type Rank = (usize, Reverse<u64>, IpAddr);

#[derive(Debug, Default)]
struct State {
    open: usize,
    next: u64,
    addresses: FxHashMap<IpAddr, Address>,
    /// Addresses with unknown connections; the last one loses one first.
    ranks: BTreeSet<Rank>,
    /// Known connections, the oldest first.
    known: BTreeMap<u64, Arc<Shared>>,
}

/// The connections of one address.
#[derive(Debug, Default)]
struct Address {
    open: usize,
    /// A trusted proxy has the connections of many clients: it loses them last.
    is_proxy: bool,
    unknown: BTreeMap<u64, Arc<Shared>>,
}

impl Address {
    fn rank(&self, address: IpAddr) -> Option<Rank> {
        let (oldest, _) = self.unknown.first_key_value()?;
        let count = if self.is_proxy { 0 } else { self.unknown.len() };
        Some((count, Reverse(*oldest), address))
    }
}

/// State shared by a slot and the table.
#[derive(Debug)]
struct Shared {
    number: u64,
    address: IpAddr,
    is_known: AtomicBool,
    /// Whether it may be closed without loss: no request is in progress, and it is not a Bolt connection.
    is_idle: AtomicBool,
    evicted: Notify,
}

/// An open connection's slot; released when dropped.
#[derive(Debug)]
pub struct Slot {
    table: Arc<Connections>,
    shared: Arc<Shared>,
    only_health: bool,
}

/// Source of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Peer address.
    pub address: IpAddr,
    /// Whether it is a trusted proxy, to which the limit per address does not apply.
    pub is_proxy: bool,
}

/// The client of a connection.
#[derive(Clone)]
pub struct Client {
    /// Its address.
    pub peer: SocketAddr,
    /// When the connection was accepted.
    pub accepted: tokio::time::Instant,
    /// Slot of the connection.
    pub slot: Arc<Slot>,
}

impl Connections {
    /// At most `most` connections, and `most_of_address` from one address.
    pub fn new(most: usize, most_of_address: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            most_of_address,
            state: Mutex::default(),
            ended: Notify::new(),
            counts: Counts::default(),
            log_of_all: Paced::default(),
            log_of_address: Paced::default(),
            log_of_slow: Paced::default(),
        })
    }

    /// A slot for a connection; may evict another one. If all others have requests in progress: one that serves
    /// `/health` alone if `may_be_health` and one is free, otherwise `None`.
    pub fn open(self: &Arc<Self>, source: Source, may_be_health: bool) -> Option<Slot> {
        let address = network_of(source.address);
        let mut state = self.state.lock();
        let of_address = state.addresses.get(&address).map_or(0, |one| one.open);
        let mut only_health = false;
        // An address at its limit loses one of its own connections: others must not pay for it.
        if !source.is_proxy && of_address >= self.most_of_address {
            let found = state.unknown_of(address);
            let found = found.or_else(|| state.idle_of(Some(address)));
            self.note_address(source.address, of_address, found.is_some());
            let found = found?;
            state.evict(&found);
        }
        if state.open >= self.most {
            // Unknown connections first, from the address with the most of them, so that a flood evicts its own;
            // then idle known ones. Known connections with a request in progress are never closed.
            let found = state.ranks.last().map(|(.., address)| *address);
            let found = found.and_then(|address| state.unknown_of(address));
            let found = found.or_else(|| state.idle_of(None));
            let others = state.open - usize::from(found.is_some());
            only_health = others >= self.most;
            let has_slot = may_be_health && state.open < self.most + HEALTH_SLOTS;
            let has_room = !only_health || has_slot || may_be_health && found.is_some();
            let found = found.filter(|_| has_room && !(only_health && has_slot));
            if let Some(found) = &found {
                state.evict(found);
            }
            self.note_all(found.is_some(), has_room);
            if !has_room {
                return None;
            }
        }
        let shared = state.add(address, source.is_proxy);
        Some(Slot {
            table: self.clone(),
            shared,
            only_health,
        })
    }

    /// Connections that are open.
    pub fn count(&self) -> usize {
        self.state.lock().open
    }

    /// Counters of limits.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Waits until no connection is open.
    pub async fn all_ended(&self) {
        loop {
            let ended = self.ended.notified();
            if self.count() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Counts a connection that was closed because nothing, or too little, arrived in time.
    pub fn note_slow(&self) {
        let slow = self.counts.slow.fetch_add(1, Ordering::Relaxed) + 1;
        if self.log_of_slow.is_due() {
            tracing::warn!(
                slow,
                "connections are closed because nothing, or too little, arrived in time (limits.head_time, limits.idle_time)"
            );
        }
    }

    /// Counts an eviction or refusal, and returns the totals of both.
    fn count_limited(&self, is_evicted: bool, has_room: bool) -> (u64, u64) {
        let Counts {
            evicted, refused, ..
        } = &self.counts;
        evicted.fetch_add(is_evicted.into(), Ordering::Relaxed);
        refused.fetch_add((!has_room).into(), Ordering::Relaxed);
        (
            evicted.load(Ordering::Relaxed),
            refused.load(Ordering::Relaxed),
        )
    }

    fn note_all(&self, is_evicted: bool, has_room: bool) {
        let (evicted, refused) = self.count_limited(is_evicted, has_room);
        if self.log_of_all.is_due() {
            tracing::warn!(
                most = self.most,
                evicted,
                refused,
                "the limit of open connections is reached (limits.connections): unauthenticated ones are closed for new ones, or new \
                 ones are refused if there are none"
            );
        }
    }

    fn note_address(&self, address: IpAddr, open: usize, is_evicted: bool) {
        let (evicted, refused) = self.count_limited(is_evicted, is_evicted);
        self.counts.of_address.fetch_add(1, Ordering::Relaxed);
        if self.log_of_address.is_due() {
            tracing::warn!(
                %address,
                open,
                evicted,
                refused,
                "the limit of connections from one address is reached (limits.connections_per_address): its unauthenticated ones are \
                 closed for new ones, or new ones are refused if there are none"
            );
        }
    }
}

impl State {
    fn add(&mut self, address: IpAddr, is_proxy: bool) -> Arc<Shared> {
        let number = self.next;
        self.next += 1;
        self.open += 1;
        let shared = Arc::new(Shared {
            number,
            address,
            is_known: AtomicBool::new(false),
            is_idle: AtomicBool::new(true),
            evicted: Notify::new(),
        });
        let entry = self.addresses.entry(address).or_default();
        entry.open += 1;
        // The rank depends on it, so it changes before the rank is computed.
        if entry.is_proxy != is_proxy {
            let rank = entry.rank(address);
            entry.is_proxy = is_proxy;
            if let Some(rank) = rank {
                self.ranks.remove(&rank);
            }
        }
        self.change_unknown(address, |unknown| {
            unknown.insert(number, shared.clone());
        });
        shared
    }

    /// Changes the number of unknown connections of an address, and its rank.
    fn change_unknown(
        &mut self,
        address: IpAddr,
        change: impl FnOnce(&mut BTreeMap<u64, Arc<Shared>>),
    ) {
        let Some(entry) = self.addresses.get_mut(&address) else {
            return;
        };
        if let Some(rank) = entry.rank(address) {
            self.ranks.remove(&rank);
        }
        change(&mut entry.unknown);
        self.ranks.extend(entry.rank(address));
    }

    /// The unknown connection that an address loses first: the oldest one without a request in progress, or else the
    /// oldest one.
    fn unknown_of(&self, address: IpAddr) -> Option<Arc<Shared>> {
        let unknown = &self.addresses.get(&address)?.unknown;
        let is_idle = |shared: &&Arc<Shared>| shared.is_idle.load(Ordering::Relaxed);
        let idle = unknown
            .values()
            .take(MAX_SEARCHED_CONNECTIONS)
            .find(is_idle);
        idle.or_else(|| unknown.values().next()).cloned()
    }

    /// The oldest known connection that can be closed without loss, of one address or of all.
    fn idle_of(&self, address: Option<IpAddr>) -> Option<Arc<Shared>> {
        let fits = |shared: &&Arc<Shared>| {
            shared.is_idle.load(Ordering::Relaxed)
                && address.is_none_or(|address| shared.address == address)
        };
        self.known.values().find(fits).cloned()
    }

    /// Requests that a connection be closed. Its slot is released at once.
    fn evict(&mut self, shared: &Shared) {
        self.remove(shared);
        shared.evicted.notify_one();
    }

    /// Removes a connection; idempotent.
    fn remove(&mut self, shared: &Shared) {
        let mut removed = self.known.remove(&shared.number).is_some();
        self.change_unknown(shared.address, |unknown| {
            removed |= unknown.remove(&shared.number).is_some();
        });
        if !removed {
            return;
        }
        self.open -= 1;
        if let Some(entry) = self.addresses.get_mut(&shared.address) {
            entry.open -= 1;
            if entry.open == 0 {
                self.addresses.remove(&shared.address);
            }
        }
    }

    /// Moves a connection between the known and the unknown ones, unless it was removed.
    fn set_known(&mut self, shared: &Arc<Shared>, is_known: bool) {
        let number = shared.number;
        if !is_known {
            if self.known.remove(&number).is_some() {
                self.change_unknown(shared.address, |unknown| {
                    unknown.insert(number, shared.clone());
                });
            }
            return;
        }
        let mut removed = None;
        self.change_unknown(shared.address, |unknown| removed = unknown.remove(&number));
        self.known.extend(removed.map(|shared| (number, shared)));
    }
}

impl Slot {
    /// Records whether an authenticated client uses it.
    pub fn set_known(&self, is_known: bool) {
        if self.shared.is_known.swap(is_known, Ordering::Relaxed) != is_known {
            self.table.state.lock().set_known(&self.shared, is_known);
        }
    }

    /// Records whether it can be closed without loss.
    pub fn set_idle(&self, is_idle: bool) {
        self.shared.is_idle.store(is_idle, Ordering::Relaxed);
    }

    /// Whether it serves `/health` alone.
    pub fn only_health(&self) -> bool {
        self.only_health
    }

    /// Waits until it is evicted.
    pub async fn evicted(&self) {
        self.shared.evicted.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.table.state.lock();
        state.remove(&self.shared);
        if state.open == 0 {
            self.table.ended.notify_waiters();
        }
    }
}

/// What is counted as one address: IPv4 addresses, and the first 64 bits of IPv6 addresses.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let first = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(first))
        }
        address => address,
    }
}

/// Rate limit: once per [`LOG_PAUSE`].
#[derive(Debug, Default)]
struct Paced(Mutex<Option<Instant>>);

impl Paced {
    fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut last = self.0.lock();
        let is_due = last.is_none_or(|last| now.duration_since(last) >= LOG_PAUSE);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(text: &str) -> Source {
        Source {
            address: text.parse().expect("an address"),
            is_proxy: false,
        }
    }

    fn is_evicted(slot: &Slot) -> bool {
        let mut waiting = std::pin::pin!(slot.evicted());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        waiting.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn the_address_with_most_unknown_connections_loses_its_oldest() {
        let table = Connections::new(5, 100);
        let one = table.open(from("10.0.0.1"), false).unwrap();
        let many: Vec<_> = (0..4)
            .map(|_| table.open(from("10.0.0.2"), false).unwrap())
            .collect();
        many[0].set_known(true);
        let newest = table.open(from("10.0.0.3"), false).unwrap();
        let evicted: Vec<bool> = many.iter().map(is_evicted).collect();
        assert_eq!(evicted, [false, true, false, false]);
        assert!(!is_evicted(&one) && !is_evicted(&newest));
        assert_eq!(table.count(), 5);
        // Of addresses with the same number, the one with the oldest connection loses it.
        drop((many, one, newest));
        let slots: Vec<_> = (1..=5)
            .map(|last| table.open(from(&format!("10.0.0.{last}")), false).unwrap())
            .collect();
        let _newest = table.open(from("10.0.0.9"), false).unwrap();
        assert!(is_evicted(&slots[0]) && !slots[1..].iter().any(is_evicted));
        drop(slots);
        assert_eq!(table.count(), 1);
    }

    #[test]
    fn known_connections_are_closed_last_and_only_between_requests() {
        let table = Connections::new(3, 100);
        let slots: Vec<_> = (0..3)
            .map(|_| table.open(from("10.0.0.1"), true).unwrap())
            .collect();
        slots.iter().for_each(|slot| slot.set_known(true));
        slots[0].set_idle(false);
        let newest = table.open(from("10.0.0.2"), true).unwrap();
        assert!(is_evicted(&slots[1]) && !newest.only_health());
        slots[2].set_idle(false);
        newest.set_known(true);
        newest.set_idle(false);
        assert!(table.open(from("10.0.0.3"), false).is_none());
        let health: Vec<_> = (0..HEALTH_SLOTS)
            .map(|_| table.open(from("10.0.0.3"), true).unwrap())
            .collect();
        assert!(health.iter().all(Slot::only_health));
        // They are unknown: the next one closes the oldest of them.
        let one_more = table.open(from("10.0.0.3"), true).unwrap();
        assert!(one_more.only_health() && is_evicted(&health[0]));
        assert!(table.open(from("10.0.0.3"), false).is_none());
        assert_eq!(table.counts().refused.load(Ordering::Relaxed), 2);
        drop(one_more);
        // After a logout it counts as unknown again.
        newest.set_idle(true);
        newest.set_known(false);
        drop(health);
        let _one_more = table.open(from("10.0.0.4"), false).unwrap();
        assert!(is_evicted(&newest));
    }

    #[test]
    fn one_address_has_its_own_limit_unless_it_is_a_proxy() {
        let table = Connections::new(100, 2);
        let first = table.open(from("10.0.0.1"), false).unwrap();
        let second = table.open(from("::ffff:10.0.0.1"), false).unwrap();
        let third = table.open(from("10.0.0.1"), false).unwrap();
        assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&third));
        for slot in [&second, &third] {
            slot.set_known(true);
            slot.set_idle(false);
        }
        assert!(table.open(from("10.0.0.1"), true).is_none());
        assert!(table.open(from("10.0.0.2"), true).is_some());
        let of_v6: Vec<_> = (1..4)
            .map(|last| {
                table
                    .open(from(&format!("2001:db8::{last}")), false)
                    .unwrap()
            })
            .collect();
        assert!(is_evicted(&of_v6[0]));
        let proxy = Source {
            is_proxy: true,
            ..from("10.0.0.7")
        };
        let of_proxy: Vec<_> = (0..20).map(|_| table.open(proxy, false).unwrap()).collect();
        assert!(!of_proxy.iter().any(is_evicted));
        assert_eq!(table.counts().of_address.load(Ordering::Relaxed), 3);
    }

    /// After any sequence of operations, the counts are those of the open connections.
    #[test]
    fn counts_match_the_open_connections() {
        let table = Connections::new(20, 8);
        let (mut slots, mut seed) = (Vec::new(), 26_u64);
        let mut roll = |sides: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % sides
        };
        for _ in 0..20_000 {
            let one = roll(slots.len().max(1) as u64) as usize;
            match roll(6) {
                0..=2 => {
                    let source = Source {
                        is_proxy: roll(4) == 0,
                        ..from(&format!("10.0.0.{}", roll(6)))
                    };
                    slots.extend(table.open(source, roll(2) == 0));
                }
                3 if !slots.is_empty() => drop(slots.swap_remove(one)),
                4 if !slots.is_empty() => slots[one].set_known(roll(3) > 0),
                _ if !slots.is_empty() => slots[one].set_idle(roll(2) == 0),
                _ => {}
            }
            let state = table.state.lock();
            let unknown: usize = state.addresses.values().map(|one| one.unknown.len()).sum();
            let open: usize = state.addresses.values().map(|one| one.open).sum();
            assert_eq!(
                (state.open, state.open),
                (open, unknown + state.known.len())
            );
            assert!(state.open <= 20 + HEALTH_SLOTS);
            let ranks: BTreeSet<Rank> = state
                .addresses
                .iter()
                .filter_map(|(address, one)| one.rank(*address))
                .collect();
            assert_eq!(state.ranks, ranks);
        }
        drop(slots);
        assert_eq!(table.count(), 0);
        assert!(table.state.lock().addresses.is_empty());
    }
}
