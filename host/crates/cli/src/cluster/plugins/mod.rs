//! `rind cluster plugins`: publishes sets of plugins for all workers of a tenant or a class, and
//! loads them on workers.
//!
//! `rind_nats` stores and verifies the signed record, and `rind_operator` loads plugins with
//! exactly the permissions of a set; this module fetches the files and connects the two. Start from
//! [`PluginSetLoader`] and [`PluginsCommand`].

mod fetch;
mod key;
mod load;
mod publish;
mod seen;

use std::path::PathBuf;

use clap::Subcommand;
use rind_nats::{TenantPluginSetStore, check_public_key};

use super::super::render;
use super::args::NatsArgs;
pub(super) use load::{PluginSetLoader, load_new_sets_forever};
use publish::{PublishSetArgs, describe_published_set};

#[derive(Debug, Subcommand)]
pub(crate) enum PluginsCommand {
    /// Make a key that signs sets of plugins, in a file that only you can read, and show its public key
    Key {
        /// File of the key; if it exists, only its public key is shown
        file: PathBuf,
    },
    /// Sign the plugins that run here, with their grants, settings and rules that deny, and publish them to
    /// the workers
    Publish(Box<PublishSetArgs>),
    /// Show the set of plugins that is in force for a class
    Show {
        #[command(flatten)]
        nats: NatsArgs,
        /// Class of workers
        #[arg(long, value_name = "NAME", default_value = "default")]
        class: String,
        /// Public key that must have signed the set; may be repeated
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
                let (key, is_new) = key::read_or_create_plugin_set_key(&file)?;
                if is_new {
                    render::print_note(&format!("the key is in {}", file.display()));
                }
                render::print_stdout_line(key.public_key());
            }
            Self::Publish(args) => args.run().await?,
            Self::Show {
                nats,
                class,
                plugins_key,
                json,
            } => {
                check_plugin_set_public_keys(&plugins_key)?;
                let sets = TenantPluginSetStore::from_sessions(&nats.connect().await?);
                let Some(set) = sets.find_set(&class, &plugins_key).await? else {
                    anyhow::bail!("no set of plugins is published for the class {class}");
                };
                if json {
                    return render::print_json(&set.record);
                }
                render::print_stdout_line(describe_published_set(&set.record));
                render::print_stdout_line(format!("signed by {}: {}", set.key, set.digest));
            }
        }
        Ok(())
    }
}

/// Checks that each text is a public key for sets of plugins.
pub(super) fn check_plugin_set_public_keys(keys: &[String]) -> anyhow::Result<()> {
    Ok(keys.iter().try_for_each(|key| check_public_key(key))?)
}
