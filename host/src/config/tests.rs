//! Tests of merged layers, and of error messages for invalid settings.

use super::*;
use crate::table::parse_table_rows;

#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DemoSection {
    steps: u32,
    name: String,
    inner: InnerTable,
}

#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct InnerTable {
    a: u32,
    b: u32,
    c: Option<u32>,
}

impl Section for DemoSection {
    const NAME: &'static str = "demo";
}

fn config_layer(name: &str, text: &str) -> ConfigLayer {
    ConfigLayer::from_file_text(name.as_ref(), text.to_owned()).unwrap()
}

#[test]
fn each_key_is_taken_from_the_last_settings_layer_that_sets_it() {
    let config = Config::new(vec![
        config_layer("user", "[demo]\nsteps = 1\nname = 'u'\ninner.a = 1"),
        config_layer("project", "[demo]\nsteps = 2\ninner.b = 2"),
        ConfigLayer::from_command_line_flag("demo.inner.a=9").unwrap(),
    ]);
    let DemoSection { steps, name, inner } = config.section().unwrap();
    assert_eq!((steps, &*name), (2, "u"));
    assert_eq!((inner.a, inner.b, inner.c), (9, 2, None));
}

/// Returns the error for an invalid file: reads it, checks for unknown sections, and parses each
/// section.
fn settings_error(name: &str, text: &str) -> String {
    let found = ConfigLayer::from_file_text(name.as_ref(), text.to_owned()).and_then(|layer| {
        let config = Config::new(vec![layer]);
        config.check_known_sections(&["demo", "plugins"])?;
        config.section::<PluginsConfig>()?;
        config.section::<DemoSection>().map(drop)
    });
    found.unwrap_err().to_string()
}

#[test]
fn an_invalid_setting_is_an_error_with_file_and_line() {
    let table = "
⏎[demo]⏎steps = 1⏎stepz = 2⏎ => 4: in [demo]: unknown field `stepz`, expected one of `steps`, `name`, `inner`
[demo.inner]⏎a = 1⏎b = 'x'⏎ => 3: in [demo]: invalid type
[demo]⏎⏎[dmeo]⏎ => 3: unknown section `dmeo`; known: demo, plugins
[demo]⏎steps = ⏎ => 2:
[plugins.redact]⏎prio = 7⏎ => 2: in [plugins]: unknown field `prio`
";
    for [text, expected] in parse_table_rows(table) {
        let found = settings_error("/c/config.toml", &text);
        let expected = format!("/c/config.toml:{expected}");
        assert!(found.starts_with(&expected), "{found}");
    }
}

#[test]
fn locations_of_a_setting_contain_their_lines() {
    let config = Config::new(vec![
        config_layer("a", "[demo]\nsteps = 1\n[demo.inner]\n\na = 1\n"),
        config_layer("b", "demo = { inner = { a = 2 } }\n"),
        config_layer("c", "[other]\n"),
        ConfigLayer::from_command_line_flag("demo.inner.a=3").unwrap(),
    ]);
    let places = config.value_locations(&["demo", "inner", "a"]);
    assert_eq!(places, ["a:5", "b:1", "--set demo.inner.a=3"]);
    assert_eq!(config.value_locations(&["demo", "inner"])[0], "a:3");
    assert_eq!(config.value_locations(&["demo", "steps", "a"]), [""; 0]);
}

#[test]
fn locations_of_json_settings_contain_line_numbers() {
    let text = "{\n \"other\": {\"inner\": 1},\n \"demo\": {\n  \"inner\":\n   {\"a\": 2},\n  \"name\": null}}";
    let config = Config::new(vec![config_layer("j.json", text)]);
    assert_eq!(
        config.value_locations(&["demo", "inner", "a"]),
        ["j.json:5"]
    );
    assert_eq!(config.value_locations(&["demo"]), ["j.json:3"]);
    for not_there in [&["demo", "a"][..], &["demo", "name"], &["inner"]] {
        assert_eq!(config.value_locations(not_there), [""; 0], "{not_there:?}");
    }
}

#[test]
fn a_string_value_on_the_command_line_needs_no_quotes() {
    let config = Config::new(vec![
        ConfigLayer::from_command_line_flag("demo.name=some-name").unwrap(),
    ]);
    assert_eq!(config.section::<DemoSection>().unwrap().name, "some-name");
    assert!(ConfigLayer::from_command_line_flag("demo.name").is_err());
}

#[test]
fn plugin_settings_contain_a_table_with_any_keys() {
    let text = "[plugins.redact]\npriority = 7\non_failure = 'block'\n[plugins.redact.config]\nwords = ['a']\n";
    let config = Config::new(vec![config_layer("c", text)]);
    let plugins: PluginsConfig = config.section().unwrap();
    let redact = &plugins.0["redact"];
    assert_eq!(redact.priority, Some(7));
    assert!(redact.enabled);
    assert!(redact.config.contains_key("words"));
}

#[test]
fn settings_may_be_json_and_toml_takes_precedence() {
    let text = r#"{"demo": {"steps": 3, "inner": {"a": 1, "c": null}}, "other": [1.5]}"#;
    let toml = config_layer("c.toml", "demo.inner.a = 2");
    let config = Config::new(vec![config_layer("c.json", text), toml]);
    let demo: DemoSection = config.section().unwrap();
    assert_eq!((demo.steps, demo.inner.a, &*demo.name), (3, 2, ""));
    let folder = tempfile::tempdir().unwrap();
    let toml = folder.path().join("config.toml");
    assert_eq!(ConfigLayer::read_files(&toml).unwrap().len(), 0);
    std::fs::write(folder.path().join("config.json"), text).unwrap();
    std::fs::write(&toml, "demo.steps = 9").unwrap();
    let config = Config::new(ConfigLayer::read_files(&toml).unwrap());
    assert_eq!(config.section::<DemoSection>().unwrap().steps, 9);
    let without = config
        .clone_without_file_layers(&toml)
        .section::<DemoSection>()
        .unwrap();
    assert_eq!(without, DemoSection::default(), "both files go");
}

#[test]
fn an_invalid_json_setting_is_an_error_with_file_and_line() {
    let table = r#"
{⏎"demo": {⏎"stepz": 1}} => 3: in [demo]: unknown field `stepz`, expected one of `steps`, `name`, `inner`
{⏎"demo": {"steps": "x"}} => 2: in [demo]: invalid type: string "x", expected u32
{"demo": {"name": null}} => 1: in [demo]: invalid type: null, expected a string
{"demo": {},⏎⏎"dmeo": {}} => 3: unknown section `dmeo`; known: demo, plugins
{"demo":⏎} => 2: expected value
[] => 1: settings must be one JSON object
"#;
    for [text, expected] in parse_table_rows(table) {
        let expected = format!("c.json:{expected}");
        assert_eq!(settings_error("c.json", &text), expected, "{text}");
    }
}
