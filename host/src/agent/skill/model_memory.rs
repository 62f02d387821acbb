//! Data about models that a session remembers for skills: the models that the provider offers, and
//! the skills whose refused model was already reported to the user.

use std::sync::{Arc, Mutex};

use crate::lock::lock_ignoring_poison;

/// Memory of a session about the models that skills request: the refused ones, and the models that
/// the provider offers.
#[derive(Default)]
pub(super) struct SkillModelCache(Mutex<SkillModelCacheState>);

#[derive(Default)]
struct SkillModelCacheState {
    /// Hashes of skills whose requested model was refused and reported to the user.
    refused: Vec<String>,
    /// Name of the provider whose list of models was requested last, and the models that it offers.
    offered: Option<(String, Arc<[String]>)>,
}

impl SkillModelCache {
    /// Records that the user is notified why a skill does not get its requested model. Returns
    /// whether this is the first time.
    pub(super) fn record_refused_model(&self, hash: &str) -> bool {
        let refused = &mut lock_ignoring_poison(&self.0).refused;
        let is_news = !refused.iter().any(|own| own == hash);
        if is_news {
            refused.push(hash.to_owned());
        }
        is_news
    }

    /// Returns the models that this provider offers; `None` if it was not asked yet.
    pub(super) fn cached_provider_models(&self, provider: &str) -> Option<Arc<[String]>> {
        let remembered = lock_ignoring_poison(&self.0);
        let (name, models) = remembered.offered.as_ref()?;
        (name == provider).then(|| models.clone())
    }

    pub(super) fn remember_model_list(&self, provider: &str, models: Vec<String>) -> Arc<[String]> {
        let models: Arc<[String]> = models.into();
        lock_ignoring_poison(&self.0).offered = Some((provider.to_owned(), models.clone()));
        models
    }
}
