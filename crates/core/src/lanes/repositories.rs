//! A warning for a service that builds its repositories again and again.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The most repositories of one collection before the warning.
const MANY: usize = 16;

/// The repositories of each namespace that are alive, and whether the warning was given.
static ALIVE: LazyLock<Mutex<HashMap<String, (usize, bool)>>> = LazyLock::new(Mutex::default);

fn alive() -> MutexGuard<'static, HashMap<String, (usize, bool)>> {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A repository that is alive. Its clones are the same one.
pub(super) struct Repository {
    namespace: String,
}

impl Repository {
    /// Counts a repository, and warns once for a namespace that has many.
    pub(super) fn register(namespace: String) -> Self {
        let mut alive = alive();
        let (repositories, warned) = alive.entry(namespace.clone()).or_default();
        *repositories += 1;
        let number = *repositories;
        let warns = number > MANY && !*warned;
        *warned |= warns;
        // The subscriber may build repositories, too.
        drop(alive);
        if warns {
            tracing::warn!(
                namespace = %namespace,
                repositories = number,
                "many repositories of one collection were built: their calls do not share lanes, and may take all connections of the pool while they wait for each other. Build one, and clone it",
            );
        }
        Self { namespace }
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let mut alive = alive();
        if let Some((repositories, warned)) = alive.get_mut(&self.namespace) {
            *repositories -= 1;
            if *repositories == 0 && !*warned {
                alive.remove(&self.namespace);
            }
        }
    }
}
