//! `rind cluster plugins`: sets of plugins that all workers of a tenant or a class run, and how a worker
//! takes them.
//!
//! `rind_nats` stores and verifies the signed record, `rind_operator` loads plugins with exactly what a
//! set grants; here the files are fetched and the two are put together. Start from [`SetLoader`] and
//! [`PluginsCommand`].

mod fetch;
mod key;
mod load;
mod publish;
mod seen;

use std::path::PathBuf;

use clap::Subcommand;
use rind_nats::{PluginSets, check_public_key};

use super::super::render;
use super::args::NatsArgs;
pub(super) use load::{SetLoader, follow_sets};
use publish::{PublishSetArgs, record_text};

#[derive(Debug, Subcommand)]
pub(crate) enum PluginsCommand {
    /// Make a key that signs sets of plugins, in a file that only you can read, and show its public key
    Key {
        /// File of the key; the public key of one that is there is shown
        file: PathBuf,
    },
    /// Sign the plugins that run here, with their grants, settings and rules that deny, and publish them to
    /// the workers
    Publish(Box<PublishSetArgs>),
    /// Show the set of plugins that holds for a class
    Show {
        #[command(flatten)]
        nats: NatsArgs,
        /// Class of workers
        #[arg(long, value_name = "NAME", default_value = "default")]
        class: String,
        /// Public key that must have signed it; may be named several times
        #[arg(long, value_name = "KEY", required = true)]
        plugins_key: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl PluginsCommand {
    /// Runs the command.
    ///
    /// # Errors
    /// A key or a set cannot be used, or the servers do not answer.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Key { file } => {
                let (key, is_new) = key::read_or_make(&file)?;
                if is_new {
                    render::print_note(&format!("the key is in {}", file.display()));
                }
                render::answer_line(key.public());
            }
            Self::Publish(args) => args.run().await?,
            Self::Show {
                nats,
                class,
                plugins_key,
                json,
            } => {
                check_keys(&plugins_key)?;
                let sets = PluginSets::of(&nats.connect().await?);
                let Some(set) = sets.find(&class, &plugins_key).await? else {
                    anyhow::bail!("no set of plugins is published for the class {class}");
                };
                if json {
                    return render::print_json(&set.record);
                }
                render::answer_line(record_text(&set.record));
                render::answer_line(format!("signed by {}: {}", set.key, set.digest));
            }
        }
        Ok(())
    }
}

/// Checks that texts are public keys of sets.
pub(super) fn check_keys(keys: &[String]) -> anyhow::Result<()> {
    Ok(keys.iter().try_for_each(|key| check_public_key(key))?)
}
