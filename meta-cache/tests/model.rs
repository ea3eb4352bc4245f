//! The cache against a model that keeps, for every key, what was last said about it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use meta_cache::{Answer, Known, Lookup, MetaCache, Options, Reach, TabletAnswer};
use proptest::prelude::*;

type Key = Vec<u8>;

/// A layout of a table as the master would hold it: sorted disjoint tablets `(id, start, end)`.
type Layout = Vec<(String, Key, Key)>;

#[derive(Clone, Debug)]
enum Step {
    Lookup { key: Key, reach: Reach },
    LookUpAndGiveUp { key: Key },
    Pass { seconds: u64 },
    Invalidate { key: Key },
    Change(Layout),
    Forget,
}

/// What the model believes about one key.
#[derive(Clone, Debug, PartialEq)]
struct Belief {
    tablet: Option<String>,
    until: Instant,
}

fn all_keys() -> Vec<Key> {
    let mut keys = vec![vec![]];
    for a in 0..4u8 {
        keys.push(vec![a]);
        for b in 0..3u8 {
            keys.push(vec![a, b]);
        }
    }
    keys.sort();
    keys
}

fn is_in(key: &[u8], start: &[u8], end: &[u8]) -> bool {
    start <= key && (end.is_empty() || key < end)
}

fn layouts() -> impl Strategy<Value = Layout> {
    let keys = all_keys();
    proptest::collection::btree_set(0..keys.len(), 0..8).prop_flat_map(move |cuts| {
        let keys = keys.clone();
        let cuts: Vec<usize> = cuts.into_iter().collect();
        (proptest::collection::vec(any::<bool>(), cuts.len()), any::<u64>()).prop_map(
            move |(kept, generation)| {
                let mut layout = Layout::new();
                for (n, cut) in cuts.iter().enumerate() {
                    let end = cuts.get(n + 1).map_or_else(Vec::new, |next| keys[*next].clone());
                    if kept[n] {
                        layout.push((format!("{generation}-{n}"), keys[*cut].clone(), end));
                    }
                }
                layout
            },
        )
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let keys = all_keys();
    let key = move || proptest::sample::select(keys.clone());
    let step = prop_oneof![
        8 => (key(), any::<bool>()).prop_map(|(key, point)| Step::Lookup {
            key,
            reach: if point { Reach::Point } else { Reach::Range },
        }),
        1 => key().prop_map(|key| Step::LookUpAndGiveUp { key }),
        2 => (1u64..8).prop_map(|seconds| Step::Pass { seconds }),
        2 => key().prop_map(|key| Step::Invalidate { key }),
        2 => layouts().prop_map(Step::Change),
        1 => Just(Step::Forget),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The master: the last tablet that starts at or before the key (else the first of all), then upwards.
fn ask_master(layout: &Layout, start: &[u8], max_tablets: usize) -> Layout {
    let first = layout.iter().rposition(|(_, tablet_start, _)| &tablet_start[..] <= start).unwrap_or(0);
    layout.iter().skip(first).take(max_tablets).cloned().collect()
}

/// What an answer says about one key, by the words of the protocol, or `None` if it says nothing.
fn said_about(key: &[u8], asked: &[u8], answer: &Layout, is_full: bool) -> Option<Option<String>> {
    if let Some((id, ..)) = answer.iter().find(|(_, start, end)| is_in(key, start, end)) {
        return Some(Some(id.clone()));
    }
    let (Some((_, lowest, _)), Some((_, last_start, _))) = (answer.first(), answer.last()) else {
        return Some(None);
    };
    if key < &lowest[..] {
        return (asked < &lowest[..]).then_some(None);
    }
    if key < &last_start[..] || !is_full {
        return Some(None);
    }
    // Behind the last tablet of a full answer: nothing starts up to the key asked for.
    (key <= asked).then_some(None)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_cache_believes_what_the_model_believes(first in layouts(), steps in steps()) {
        let mut options = Options::default();
        (options.tablets_per_point, options.tablets_per_range) = (2, 5);
        options.max_gap_ttl = Duration::from_secs(4);
        let cache = MetaCache::new(options);
        let (mut now, mut layout) = (Instant::now(), first);
        let ttl = Duration::from_secs(10);
        let mut beliefs: BTreeMap<Key, Belief> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Pass { seconds } => now += Duration::from_secs(seconds),
                Step::Change(new) => layout = new,
                Step::Forget => {
                    cache.forget_table("table");
                    beliefs.clear();
                }
                Step::LookUpAndGiveUp { key } => drop(cache.lookup("table", &key, Reach::Point, now)),
                Step::Invalidate { key } => {
                    if let Lookup::Hit(tablet) = cache.lookup("table", &key, Reach::Point, now) {
                        cache.invalidate(&tablet);
                        beliefs.retain(|_, belief| belief.tablet.as_deref() != Some(tablet.id()));
                    }
                }
                Step::Lookup { key, reach } => {
                    if let Lookup::Ask(asking) = cache.lookup("table", &key, reach, now) {
                        let max = asking.request().max_tablets;
                        prop_assert_eq!(&asking.request().start, &key);
                        let answer = ask_master(&layout, &key, max);
                        let is_full = answer.len() == max;
                        let tablets = answer.iter().map(|(id, start, end)| TabletAnswer {
                            id: id.clone(), start: start.clone(), end: end.clone(), replicas: vec![],
                        }).collect();
                        let known = cache.insert(asking, Answer { ttl, servers: vec![], tablets }, now).expect("in order");
                        let known = match known {
                            Known::Tablet(tablet) => Some(tablet.id().to_owned()),
                            Known::Gap { start, end } => {
                                prop_assert!(is_in(&key, &start, &end));
                                None
                            }
                        };
                        prop_assert_eq!(Some(known), said_about(&key, &key, &answer, is_full));

                        let news: BTreeMap<Key, Option<String>> = all_keys().into_iter()
                            .filter_map(|k| said_about(&k, &key, &answer, is_full).map(|said| (k, said))).collect();
                        // A tablet of which a part is now said to be something else is believed no more.
                        let doubted: Vec<String> = news.keys()
                            .filter_map(|k| beliefs.get(k)?.tablet.clone()).collect();
                        beliefs.retain(|_, belief| belief.tablet.as_ref().is_none_or(|id| !doubted.contains(id)));
                        for (k, tablet) in news {
                            let ttl = if tablet.is_some() { ttl } else { Duration::from_secs(4) };
                            beliefs.insert(k, Belief { tablet, until: now + ttl });
                        }
                        prop_assert!(beliefs.contains_key(&key), "an answer settles the key asked for");
                    }
                }
            }
            for key in all_keys() {
                let believed = beliefs.get(&key).filter(|belief| now < belief.until);
                match cache.lookup("table", &key, Reach::Point, now) {
                    Lookup::Hit(tablet) => {
                        prop_assert!(tablet.covers(&key));
                        prop_assert_eq!(believed.and_then(|belief| belief.tablet.as_deref()), Some(tablet.id()));
                    }
                    Lookup::NonCovered { start, end } => {
                        prop_assert!(is_in(&key, &start, &end));
                        prop_assert_eq!(believed.map(|belief| belief.tablet.is_none()), Some(true));
                    }
                    Lookup::Ask(_) => prop_assert_eq!(believed, None, "key {:?} was forgotten", key),
                    Lookup::Wait(_) => prop_assert!(false, "nobody asks any more"),
                }
            }
        }
    }

    #[test]
    fn an_answer_of_any_shape_never_panics_and_is_refused_when_out_of_order(
        tablets in proptest::collection::vec((any::<[u8; 1]>(), any::<[u8; 1]>(), 0usize..3), 0..6),
        key in any::<[u8; 1]>(),
    ) {
        let cache = MetaCache::new(Options::default());
        let now = Instant::now();
        let Lookup::Ask(asking) = cache.lookup("t", &key, Reach::Point, now) else { panic!("empty cache") };
        let replicas = |server| vec![meta_cache::ReplicaAnswer { server, role: meta_cache::Role::Leader }];
        let answer = Answer {
            ttl: Duration::MAX,
            servers: vec![meta_cache::ServerAnswer::new("a"), meta_cache::ServerAnswer::new("b").address("h", 1)],
            tablets: tablets.iter().map(|(start, end, server)| TabletAnswer {
                id: "x".into(), start: start.to_vec(), end: end.to_vec(), replicas: replicas(*server),
            }).collect(),
        };
        let in_order = tablets.iter().all(|(start, end, _)| start < end)
            && tablets.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        let servers_known = tablets.iter().all(|(.., server)| *server < 2);
        prop_assert_eq!(cache.insert(asking, answer, now).is_ok(), in_order && servers_known);
    }
}
