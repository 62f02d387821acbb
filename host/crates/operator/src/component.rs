//! Generates manifests for third-party components that the operator runs as plugins.
//!
//! A component file has no manifest. The generated manifest requests exactly the permissions that
//! the operator gives with flags and a policy file. Policy files have the format of wassette. Start
//! from [`generate_component_manifest`].

use std::path::{Component as PathPart, Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use super::setup::OperatorWorkspaceSetup;
use super::usage::bail_usage;
use rind_lib::disk::read_if_present;
use rind_lib::front_matter::parse_yaml_document;
use rind_lib::grant::decide::GrantFlagValue;
use rind_lib::grant::{GrantableFolder, HostPattern};
use rind_lib::plugin::component::ComponentWithoutOwnManifest;
use rind_lib::plugin::manifest::Manifest;
use rind_mcp::to_valid_server_name;

/// Maximum size of a file with the permissions of a component, in bytes.
const MAX_POLICY_FILE_BYTES: u64 = 1 << 20;

/// Component file that the operator names, and the policy file with its permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WasmComponentAndPolicyPaths {
    /// Path of the WebAssembly component.
    pub path: PathBuf,
    /// Path of the policy file with the component's permissions; `None` if there is none.
    pub policy: Option<PathBuf>,
}

/// Permissions that the operator gives a WebAssembly component.
#[derive(Debug, Default, PartialEq, Eq)]
struct ComponentPermissions {
    read: Vec<String>,
    write: Vec<String>,
    hosts: Vec<String>,
    private: Vec<String>,
    environment: Vec<String>,
    memory: Option<String>,
}

/// Generates the manifest of a component. Its permissions come from the policy file and from the
/// flags that name the component.
///
/// # Errors
/// A file does not exist or is invalid, or a permission cannot be given to a component.
pub fn generate_component_manifest(
    setup: &OperatorWorkspaceSetup,
    file: &WasmComponentAndPolicyPaths,
    flags: &[GrantFlagValue],
) -> anyhow::Result<ComponentWithoutOwnManifest> {
    let shown = file.path.display();
    let path = file.path.canonicalize();
    let path = path.with_context(|| format!("the component {shown} cannot be read"))?;
    let (Some(folder), Some(file_name)) = (path.parent(), path.file_name()) else {
        bail_usage!("{shown} is not a file");
    };
    let Some(file_name) = file_name.to_str() else {
        bail_usage!("{shown}: the file name is not UTF-8; rename the file");
    };
    let name = component_name_from_file_name(file_name);
    if name.is_empty() {
        bail_usage!(
            "{shown}: the file name has no letters or digits for a component name; rename the file, for example to `time-server.wasm`"
        );
    }
    let mut given = match &file.policy {
        Some(policy) => read_wassette_policy(policy, &setup.paths.workspace)?,
        None => ComponentPermissions::default(),
    };
    for text in flags
        .iter()
        .filter(|flag| flag.plugin_name() == name)
        .flat_map(GrantFlagValue::capability_pattern_texts)
    {
        if let Err(why) = given.add_capability(text) {
            bail_usage!("--grant {name}={text}: {why}");
        }
    }
    let secrets = setup.secrets()?;
    let environment = given.environment.iter().map(|key| match secrets.variable_or_secret(key) {
        Some(value) => Ok((key.clone(), value)),
        None => Err(anyhow::anyhow!(
            "the component {shown} is granted the environment variable `{}`, but neither the environment nor secrets.toml sets it",
            key.escape_debug()
        )),
    });
    let environment = environment.collect::<Result<Vec<_>, _>>()?;
    let text = given.manifest_text(&name, file_name);
    // Check a manifest without permissions first. If it is invalid, report the component's name as
    // the cause; otherwise a permission is the cause.
    let plain = ComponentPermissions::default().manifest_text(&name, file_name);
    Manifest::parse(&plain, &path).with_context(|| {
        format!("the name of its file gives the component {shown} the name `{name}`, which is not valid; rename the file")
    })?;
    let manifest = Manifest::parse(&text, &path).with_context(|| {
        let from = file
            .policy
            .as_ref()
            .map_or_else(String::new, |policy| format!("{} or ", policy.display()));
        format!("the permissions that {from}--grant gives the component {shown} are not valid")
    })?;
    Ok(ComponentWithoutOwnManifest {
        manifest,
        folder: folder.to_owned(),
        environment,
    })
}

/// Returns the name of a component: its file name up to the first `.`, converted to a valid name of
/// a server.
#[must_use]
pub fn component_name_from_file_name(file_name: &str) -> String {
    let stem = file_name.split('.').next().unwrap_or(file_name);
    to_valid_server_name(stem)
}

impl ComponentPermissions {
    fn add_capability(&mut self, text: &str) -> Result<(), String> {
        let (kind, argument) = text.split_once(':').unwrap_or((text, ""));
        let list = match kind {
            "read" => &mut self.read,
            "write" => &mut self.write,
            "network" => &mut self.hosts,
            "private-network" => &mut self.private,
            _ => {
                return Err(
                    "this permission does not apply to components; use read:FOLDER, write:FOLDER, \
                     network:HOST and private-network:HOST"
                        .to_owned(),
                );
            }
        };
        match kind {
            "read" | "write" => argument.parse::<GrantableFolder>().map(drop)?,
            _ => argument.parse::<HostPattern>().map(drop)?,
        }
        list.push(argument.to_owned());
        Ok(())
    }

    /// Returns the text of a manifest that requests these permissions of the component and no
    /// others.
    fn manifest_text(&self, name: &str, file_name: &str) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let list = |items: &[String]| {
            let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        };
        let has_files = !self.read.is_empty() || !self.write.is_empty();
        let has_network = !self.hosts.is_empty() || !self.private.is_empty();
        let effects = [(has_files, "filesystem"), (has_network, "network")];
        let effects = effects.iter().filter(|(is_given, _)| *is_given);
        let effects: Vec<String> = effects.map(|(_, name)| (*name).to_owned()).collect();
        let mut text = format!(
            "name = {}\nversion = \"0.0.0\"\ndescription = {}\ncomponent = {}\nside_effects = {}\n[compat]\nsockets = \"inert\"\n",
            quoted(name),
            quoted(&format!("Component of the file {file_name}.")),
            quoted(file_name),
            list(&effects),
        );
        if has_files {
            text += &format!(
                "[filesystem]\nread = {}\nwrite = {}\n",
                list(&self.read),
                list(&self.write)
            );
        }
        if has_network {
            text += &format!(
                "[network]\nhosts = {}\nprivate = {}\n",
                list(&self.hosts),
                list(&self.private)
            );
        }
        if let Some(memory) = &self.memory {
            text += &format!("[limits]\nmemory = {}\n", quoted(memory));
        }
        text
    }
}

/// Reads a policy file in the format of wassette: the `allow` lists of `storage`, `network` and
/// `environment` in `permissions`, and `permissions.resources.limits.memory`.
fn read_wassette_policy(path: &Path, workspace: &Path) -> anyhow::Result<ComponentPermissions> {
    let read = read_if_present(path, MAX_POLICY_FILE_BYTES);
    let read = read.with_context(|| format!("cannot read the policy {}", path.display()))?;
    let Some(text) = read else {
        bail_usage!("there is no policy file {}", path.display());
    };
    let document = parse_yaml_document(&text).map_err(|((line, column), why)| {
        anyhow::anyhow!("{}:{line}:{column}: {why}", path.display())
    })?;
    let policy = serde_json::Map::from_iter(
        document
            .entries
            .iter()
            .map(|entry| (entry.key.clone(), entry.node.to_json_value())),
    );
    parse_policy(&Value::Object(policy), workspace)
        .map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))
}

fn parse_policy(policy: &Value, workspace: &Path) -> Result<ComponentPermissions, String> {
    let mut given = ComponentPermissions::default();
    let permissions = policy.get("permissions").unwrap_or(&Value::Null);
    let known = ["environment", "network", "resources", "storage"];
    for name in permissions
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
    {
        if !known.contains(&name.as_str()) {
            return Err(format!(
                "unknown key `permissions.{}`; the keys are {}",
                name.escape_debug(),
                known.join(", ")
            ));
        }
    }
    // Refuse `deny` lists: they are not implemented, and an ignored denial would be misleading.
    // Anything that is not allowed is denied anyway.
    for name in known {
        let own = permissions.get(name).and_then(|own| own.get("deny"));
        if own.is_some_and(|own| !own.is_null() && own.as_array().is_none_or(|own| !own.is_empty()))
        {
            return Err(format!(
                "`permissions.{name}.deny` is not supported; remove it, because everything that `allow` does not list is denied"
            ));
        }
    }
    for entry in read_policy_allow_list(permissions, "storage")? {
        let uri = policy_entry_text(entry, "storage", "uri")?;
        let folder = fs_uri_to_manifest_path(uri, workspace)?;
        let access: Vec<&str> = match entry.get("access").and_then(Value::as_array) {
            Some(access) => access.iter().filter_map(Value::as_str).collect(),
            None => vec!["read"],
        };
        match (access.contains(&"write"), access.contains(&"read")) {
            (true, _) => given.write.push(folder),
            (false, true) => given.read.push(folder),
            (false, false) => return Err(format!("`access` of `{uri}` is neither read nor write")),
        }
    }
    for entry in read_policy_allow_list(permissions, "network")? {
        given
            .hosts
            .push(policy_entry_text(entry, "network", "host")?.to_owned());
    }
    for entry in read_policy_allow_list(permissions, "environment")? {
        given
            .environment
            .push(policy_entry_text(entry, "environment", "key")?.to_owned());
    }
    let limits = permissions
        .get("resources")
        .and_then(|own| own.get("limits"));
    if let Some(memory) = limits.and_then(|limits| limits.get("memory")) {
        let memory = memory.as_str().unwrap_or_default();
        // Parse the Kubernetes notation, such as `512Mi`.
        let digits = memory
            .strip_suffix("Mi")
            .filter(|digits| digits.parse::<u32>().is_ok());
        let digits = digits.ok_or_else(|| {
            format!(
                "`memory` is a text such as `64Mi`, not `{}`",
                memory.escape_debug()
            )
        })?;
        given.memory = Some(format!("{digits}MiB"));
    }
    Ok(given)
}

fn read_policy_allow_list<'p>(permissions: &'p Value, name: &str) -> Result<&'p [Value], String> {
    match permissions.get(name).and_then(|own| own.get("allow")) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(entries)) => Ok(entries),
        Some(_) => Err(format!("`permissions.{name}.allow` is not a list")),
    }
}

fn policy_entry_text<'e>(entry: &'e Value, section: &str, key: &str) -> Result<&'e str, String> {
    let text = entry.get(key).and_then(Value::as_str);
    text.ok_or_else(|| format!("an entry of `permissions.{section}.allow` has no `{key}`"))
}

/// Converts a `fs://` URI of a policy file to a folder in the notation of manifests. The folder
/// must be the workspace or a folder below it.
fn fs_uri_to_manifest_path(uri: &str, workspace: &Path) -> Result<String, String> {
    let Some(path) = uri.strip_prefix("fs://") else {
        return Err(format!(
            "`{}` does not begin with `fs://`",
            uri.escape_debug()
        ));
    };
    let path = path.strip_suffix("/**").unwrap_or(path);
    if path.contains('*') {
        return Err(format!(
            "`{}` has a `*` that is not supported; access is granted to whole folders, as in `fs://workspace/docs/**`",
            uri.escape_debug()
        ));
    }
    let path = Path::new(path);
    let below = match path.is_absolute() {
        true => path.strip_prefix(workspace).map_err(|_| {
            format!(
                "`{}` is outside the workspace {}; start the server with --workspace there",
                uri.escape_debug(),
                workspace.display()
            )
        })?,
        false => path.strip_prefix("workspace").unwrap_or(path),
    };
    let mut folder = "workspace".to_owned();
    for part in below.components() {
        match part {
            PathPart::Normal(name) => {
                folder.push('/');
                folder.push_str(&name.to_string_lossy());
            }
            PathPart::CurDir => {}
            _ => return Err(format!("`{}` leads out of its folder", uri.escape_debug())),
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_gives_what_it_allows_and_nothing_else() {
        let workspace = Path::new("/w");
        let policy = json!({"version": "1.0", "permissions": {
            "storage": {"allow": [
                {"uri": "fs:///w/docs/**", "access": ["read"]},
                {"uri": "fs://workspace/out", "access": ["read", "write"]},
            ]},
            "network": {"allow": [{"host": "api.example.com"}]},
            "environment": {"allow": [{"key": "TOKEN"}]},
            "resources": {"limits": {"memory": "32Mi"}},
        }});
        let given = parse_policy(&policy, workspace).unwrap();
        assert_eq!(given.read, ["workspace/docs"]);
        assert_eq!(given.write, ["workspace/out"]);
        assert_eq!(given.hosts, ["api.example.com"]);
        assert_eq!(given.environment, ["TOKEN"]);
        let text = given.manifest_text("clock", "Clock.wasm");
        let manifest = Manifest::parse(&text, Path::new("x")).unwrap();
        assert_eq!(manifest.requested_permissions().len(), 3, "{text}");
        let none = ComponentPermissions::default().manifest_text("clock", "a \"b\".wasm");
        assert!(
            Manifest::parse(&none, Path::new("x"))
                .unwrap()
                .requested_permissions()
                .is_empty()
        );
        for (policy, expected) in [
            (
                json!({"permissions": {"storage": {"allow": [{"uri": "fs:///etc"}]}}}),
                "outside the workspace",
            ),
            (
                json!({"permissions": {"storage": {"allow": [{"uri": "fs://workspace/../x"}]}}}),
                "leads out",
            ),
            (
                json!({"permissions": {"storage": {"allow": [{"uri": "/w"}]}}}),
                "fs://",
            ),
            (
                json!({"permissions": {"storage": {"allow": [{"uri": "fs://workspace/a/*"}]}}}),
                "that is not supported",
            ),
            (
                json!({"permissions": {"network": {"deny": [{"host": "x"}]}}}),
                "not supported",
            ),
            (json!({"permissions": {"gpu": {}}}), "unknown key"),
            (
                json!({"permissions": {"network": {"allow": "all"}}}),
                "not a list",
            ),
        ] {
            let why = parse_policy(&policy, workspace).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn flags_give_files_and_hosts_and_no_part_of_the_session() {
        let mut given = ComponentPermissions::default();
        for text in [
            "read:workspace/docs",
            "network:api.example.com",
            "private-network:127.0.0.1",
        ] {
            given.add_capability(text).unwrap();
        }
        assert_eq!(given.hosts, ["api.example.com"]);
        for text in ["session", "model", "tool:bash", "network:"] {
            assert!(given.add_capability(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_made_of_file_names() {
        assert_eq!(
            component_name_from_file_name("Time_Server.component.wasm"),
            "time-server"
        );
        assert_eq!(component_name_from_file_name(".wasm"), "");
        assert_eq!(component_name_from_file_name(&"x".repeat(80)).len(), 24);
    }
}
