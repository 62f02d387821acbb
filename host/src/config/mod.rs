//! Settings: layers of TOML or JSON, merged section by section.
//!
//! Owns reading, merging, and errors that name the line of the mistake. It must not know the
//! meaning of any section: each module with settings owns a [`Section`]. Later layers take
//! precedence key by key: tables are merged, any other value is replaced completely.
//!
//! The caller decides which layers exist, because the file of a project applies only if the project
//! is trusted. The module reads files but no environment variables.
//!
//! Start from [`Config::section`].

mod json;
pub mod number;
mod plugins;
mod replaced;
mod values;

pub use plugins::{HookSettings, PluginSettings, PluginsConfig};
pub use values::EffectiveSetting;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::disk::read_if_present;
use crate::text::line_number_at;

const JSON_FILE_EXTENSION: &str = "json";

/// Settings of one module. Every field must have a default, and unknown fields must be rejected, so
/// that each layer can be checked alone and an error can name the line.
pub trait Section: DeserializeOwned + Default {
    /// Name of the table in `config.toml`, or of the object in `config.json`.
    const NAME: &'static str;
}

/// Origin of a layer of settings: a file or a flag of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigLayerOrigin {
    /// Path of a settings file.
    File(PathBuf),
    /// Flag of the command line, as the user wrote it.
    Flag(String),
}

impl fmt::Display for ConfigLayerOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Flag(flag) => write!(f, "--set {flag}"),
        }
    }
}

/// Error while reading or checking settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings file exists but cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path of the settings file.
        path: PathBuf,
        /// Error that the operating system reported.
        #[source]
        source: std::io::Error,
    },
    /// A value in the settings is invalid.
    #[error("{origin}:{line}: {message}")]
    Invalid {
        /// Origin of the layer that contains the invalid value.
        origin: ConfigLayerOrigin,
        /// Number of the line with the value in its origin, from 1.
        line: usize,
        /// Description of the problem with the value.
        message: String,
    },
}

/// Maximum size of a settings file, in bytes; a file with comments on all settings has 20 kB.
const MAX_SETTINGS_FILE_BYTES: u64 = 4 << 20;

/// Settings from one source (a file or a flag), parsed.
#[derive(Clone, Debug)]
pub struct ConfigLayer {
    origin: ConfigLayerOrigin,
    text: String,
    is_json: bool,
    table: toml::Table,
}

impl ConfigLayer {
    /// Reads the settings from a TOML file, and from the JSON file of the same name in the same
    /// folder. The TOML file takes precedence.
    pub fn read_files(path: &Path) -> Result<Vec<Self>, Error> {
        let json = Self::read_file(&path.with_extension(JSON_FILE_EXTENSION))?;
        Ok(json.into_iter().chain(Self::read_file(path)?).collect())
    }

    /// Reads the settings from a file: JSON if the extension is `json`, otherwise TOML. `None` if
    /// the file does not exist.
    pub fn read_file(path: &Path) -> Result<Option<Self>, Error> {
        let text =
            read_if_present(path, MAX_SETTINGS_FILE_BYTES).map_err(|source| Error::Read {
                path: path.to_owned(),
                source,
            })?;
        text.map(|text| Self::from_file_text(path, text))
            .transpose()
    }

    /// Parses the settings from the text of a file: JSON if the extension is `json`, otherwise
    /// TOML.
    pub fn from_file_text(path: &Path, text: String) -> Result<Self, Error> {
        let is_json = path.extension().is_some_and(|is| is == JSON_FILE_EXTENSION);
        Self::new(ConfigLayerOrigin::File(path.to_owned()), text, is_json)
    }

    /// Parses a setting from the command line, for example `agent.max_steps=10`. A value that is
    /// not valid TOML is treated as a string, so that `provider.model=some-name` needs no quotes.
    pub fn from_command_line_flag(flag: &str) -> Result<Self, Error> {
        let origin = ConfigLayerOrigin::Flag(flag.to_owned());
        Self::new(origin.clone(), flag.to_owned(), false).or_else(|error| {
            let Some((key, value)) = flag.split_once('=') else {
                return Err(error);
            };
            let value = toml::Value::String(value.trim().to_owned());
            Self::new(origin, format!("{key}={value}"), false)
        })
    }

    fn new(origin: ConfigLayerOrigin, text: String, is_json: bool) -> Result<Self, Error> {
        let table = if is_json {
            json::parse_table(&text).map_err(|e| invalid_json_error(&origin, &e))
        } else {
            text.parse()
                .map_err(|e| create_invalid_layer_error(&origin, &text, &e))
        };
        Ok(Self {
            table: table?,
            origin,
            text,
            is_json,
        })
    }

    /// Parses one section of this layer, because errors in a layer have line numbers and errors in
    /// the merged settings have none.
    fn check<T: Section>(&self) -> Result<(), Error> {
        if self.is_json {
            let checked = json::check_json_section::<T>(&self.text);
            return checked
                .map_err(|e| add_section_name_to_error::<T>(invalid_json_error(&self.origin, &e)));
        }
        let Some((_, section)) = self.find_toml_entry(&[T::NAME]) else {
            return Ok(());
        };
        let checked = T::deserialize(ValueDeserializer::from(section)).map(drop);
        checked.map_err(|e| {
            let error = create_invalid_layer_error(&self.origin, &self.text, &e);
            add_section_name_to_error::<T>(self.fix_list_error_line::<T>(error))
        })
    }

    /// Corrects the line of an error in a list: serde reports an error inside an element at the
    /// position of the complete list, and this finds the line of the invalid element.
    fn fix_list_error_line<T: Section>(&self, mut error: Error) -> Error {
        let Error::Invalid { line, message, .. } = &mut error else {
            return error;
        };
        let section = self.table.get(T::NAME).and_then(toml::Value::as_table);
        let lists = section.into_iter().flatten();
        let own = lists.filter_map(|(key, value)| {
            let elements = value.as_array()?;
            let fails = |n: &usize| {
                let mut section = section?.clone();
                let first = elements.get(..*n)?.to_vec();
                section.insert(key.clone(), first.into());
                let error = T::deserialize(toml::Value::Table(section)).err()?;
                (error.message() == message.as_str()).then_some(())
            };
            let fails = |n: &usize| fails(n).is_some();
            // Find the shortest prefix of the list with the same error; its last element is the
            // invalid one.
            let n_failing = (0..=elements.len()).find(fails)?;
            let lines = self.array_element_line_numbers(&[T::NAME, key]);
            lines.get(n_failing.checked_sub(1)?).copied()
        });
        *line = own.fold(*line, usize::max);
        error
    }

    /// Rejects settings with sections that are not in `known`.
    fn check_known_sections(&self, known: &[&str]) -> Result<(), Error> {
        if self.is_json {
            let checked = json::check_known_sections(&self.text, known);
            return checked.map_err(|e| invalid_json_error(&self.origin, &e));
        }
        let document = DeTable::parse(&self.text)
            .map_err(|e| create_invalid_layer_error(&self.origin, &self.text, &e))?;
        let mut keys = document.get_ref().keys();
        match keys.find(|key| !known.contains(&&**key.get_ref())) {
            None => Ok(()),
            Some(key) => Err(Error::Invalid {
                origin: self.origin.clone(),
                line: line_number_at(&self.text, key.span().start),
                message: unknown_section_text(key.get_ref(), known),
            }),
        }
    }
}

fn unknown_section_text(key: &str, known: &[&str]) -> String {
    format!("unknown section `{key}`; known: {}", known.join(", "))
}

/// Adds the name of the section to the message of an error.
fn add_section_name_to_error<T: Section>(mut error: Error) -> Error {
    if let Error::Invalid { message, .. } = &mut error {
        *message = format!("in [{}]: {message}", T::NAME);
    }
    error
}

fn invalid_json_error(origin: &ConfigLayerOrigin, error: &serde_json::Error) -> Error {
    Error::Invalid {
        origin: origin.clone(),
        line: error.line().max(1),
        message: json::json_error_message_without_position(error),
    }
}

/// Searches values and their positions by a path of keys: the first key names a section, and each
/// further key names an entry of the table before it.
impl ConfigLayer {
    fn find_value(&self, keys: &[&str]) -> Option<&toml::Value> {
        let (first, rest) = keys.split_first()?;
        let first = self.table.get(*first)?;
        rest.iter().try_fold(first, |value, key| value.get(*key))
    }

    /// Whether the layer sets a value at this path of keys.
    fn has_value(&self, keys: &[&str]) -> bool {
        self.find_value(keys).is_some()
    }

    /// Returns the value at this path of keys in the TOML text, and the byte offset of the path's
    /// last key.
    fn find_toml_entry(&self, keys: &[&str]) -> Option<(usize, Spanned<DeValue<'_>>)> {
        let mut table = DeTable::parse(&self.text).ok()?.into_inner();
        for (n, wanted) in keys.iter().enumerate() {
            let (key, value) = table.into_iter().find(|(key, _)| key.get_ref() == wanted)?;
            if n + 1 == keys.len() {
                return Some((key.span().start, value));
            }
            let DeValue::Table(inner) = value.into_inner() else {
                return None;
            };
            table = inner;
        }
        None
    }

    fn find_key_line(&self, keys: &[&str]) -> Option<usize> {
        if self.is_json {
            return json::find_key_path_line(&self.text, keys).filter(|_| self.has_value(keys));
        }
        Some(line_number_at(&self.text, self.find_toml_entry(keys)?.0))
    }

    /// Returns the line of each element of the list at this path of keys. If the lines of the
    /// elements are unknown, the line of the list is returned for each.
    fn array_element_line_numbers(&self, keys: &[&str]) -> Vec<usize> {
        let list = self.find_value(keys).and_then(toml::Value::as_array);
        let n_elements = list.map_or(0, Vec::len);
        let own = self.toml_element_line_numbers(keys).unwrap_or_default();
        if own.len() == n_elements {
            return own;
        }
        vec![self.find_key_line(keys).unwrap_or(1); n_elements]
    }

    fn toml_element_line_numbers(&self, keys: &[&str]) -> Option<Vec<usize>> {
        if self.is_json {
            return None;
        }
        let DeValue::Array(elements) = self.find_toml_entry(keys)?.1.into_inner() else {
            return None;
        };
        let starts = elements.iter().map(|element| element.span().start);
        Some(
            starts
                .map(|start| line_number_at(&self.text, start))
                .collect(),
        )
    }
}

fn create_invalid_layer_error(
    origin: &ConfigLayerOrigin,
    text: &str,
    error: &toml::de::Error,
) -> Error {
    Error::Invalid {
        origin: origin.clone(),
        line: line_number_at(text, error.span().map_or(0, |span| span.start)),
        message: error.message().to_owned(),
    }
}

/// Settings of all sections, merged from several layers.
#[derive(Clone, Debug, Default)]
pub struct Config {
    layers: Vec<ConfigLayer>,
}

impl Config {
    /// Merges `layers` into settings; later layers take precedence over earlier ones.
    #[must_use]
    pub fn new(layers: Vec<ConfigLayer>) -> Self {
        Self { layers }
    }

    /// Adds a layer of settings that takes precedence over all others.
    #[must_use]
    pub fn with_layer(mut self, layer: ConfigLayer) -> Self {
        self.layers.push(layer);
        self
    }

    /// Returns a section merged from all layers, without defaults; empty if no layer contains it.
    #[must_use]
    pub fn merged_section_table(&self, section: &str) -> toml::Table {
        let mut merged = toml::Table::new();
        for layer in &self.layers {
            if let Some(toml::Value::Table(table)) = layer.table.get(section) {
                merge_tables(&mut merged, table);
            }
        }
        merged
    }

    /// Returns the settings of one module: the values of all layers merged, and the defaults for
    /// the rest.
    pub fn section<T: Section>(&self) -> Result<T, Error> {
        let mut merged = toml::Table::new();
        let mut last = None;
        for layer in &self.layers {
            layer.check::<T>()?;
            if let Some(toml::Value::Table(table)) = layer.table.get(T::NAME) {
                merge_tables(&mut merged, table);
                last = Some(layer);
            }
        }
        let Some(last) = last else {
            return Ok(T::default());
        };
        // Every layer is valid by itself, so this fails only if the combination of layers is
        // invalid. The error then names the last layer.
        let text = if last.is_json { "" } else { &last.text };
        T::deserialize(merged).map_err(|e| create_invalid_layer_error(&last.origin, text, &e))
    }

    /// Returns a copy of the settings without those from a TOML file and the JSON file [of the same
    /// name](ConfigLayer::read_files).
    #[must_use]
    pub fn clone_without_file_layers(&self, file: &Path) -> Self {
        let json = file.with_extension(JSON_FILE_EXTENSION);
        let is_it = |path: &Path| path == file || path == json;
        let mut layers = self.layers.clone();
        layers
            .retain(|layer| !matches!(&layer.origin, ConfigLayerOrigin::File(path) if is_it(path)));
        Self::new(layers)
    }

    /// Rejects sections of the settings that no part of the program reads. `known` must contain the
    /// names of all valid sections.
    pub fn check_known_sections(&self, known: &[&str]) -> Result<(), Error> {
        self.layers
            .iter()
            .try_for_each(|layer| layer.check_known_sections(known))
    }

    /// Returns the locations that set a value at this path of keys, in the order of the layers:
    /// `FILE:LINE` of the last key, or the flag. The last location takes precedence.
    #[must_use]
    pub fn value_locations(&self, keys: &[&str]) -> Vec<String> {
        let place = |layer: &ConfigLayer| match &layer.origin {
            ConfigLayerOrigin::File(path) => {
                Some(format!("{}:{}", path.display(), layer.find_key_line(keys)?))
            }
            flag @ ConfigLayerOrigin::Flag(_) => layer.has_value(keys).then(|| flag.to_string()),
        };
        self.layers.iter().filter_map(place).collect()
    }

    /// Returns the location of each element of the list at this path of keys. Uses the last layer
    /// that sets the list, because its list applies.
    #[must_use]
    pub fn list_element_locations(&self, keys: &[&str]) -> Vec<String> {
        let decides = self.layers.iter().rev().find(|layer| layer.has_value(keys));
        let Some(layer) = decides else {
            return Vec::new();
        };
        let of_element = |line| match &layer.origin {
            ConfigLayerOrigin::File(path) => format!("{}:{line}", path.display()),
            flag @ ConfigLayerOrigin::Flag(_) => flag.to_string(),
        };
        let lines = layer.array_element_line_numbers(keys).into_iter();
        lines.map(of_element).collect()
    }
}

/// Merges `over` into `base`: tables are merged, any other value is replaced.
fn merge_tables(base: &mut toml::Table, over: &toml::Table) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(toml::Value::Table(base)), toml::Value::Table(over)) => merge_tables(base, over),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
