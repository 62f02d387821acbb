//! Tests of the parser of skill files. A malformed file causes one finding and gains no permission;
//! a valid file is read as its author meant it.

use super::super::scope::SkillToolNamePattern;
use super::*;
use crate::grant::SideEffect;
use crate::skill::{SkillExecutionContext, SkillInvocationRule, SkillLifetime};

/// Malformed files, each with its only finding apart from notes. A finding begins with `-` if the
/// file is not loaded, with `!` if only the user can start the skill, and with `~` if only the part
/// that the finding names is ignored.
#[rustfmt::skip]
const MALFORMED: &[(&str, &str)] = &[
    ("", "-1:1: the file is empty"),
    ("\n \n\t\n", "-1:1: the file is empty"),
    ("Do it.\n", "-1:1: there is no front matter"),
    ("# Title\n\nDo it.\n", "-1:1: there is no front matter"),
    ("---\ndescription: d\nDo it.\n", "-1:1: the front matter is not closed"),
    ("---\n", "-1:1: the front matter is not closed"),
    ("---", "-1:1: the front matter is not closed"),
    ("----\ndescription: d\n----\nDo it.\n", "-1:1: there is no front matter"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\n...\nDo it.\n", "-1:1: the front matter is not closed"),
    ("--- \ndescription: d\n-- -\nx\n", "-1:1: the front matter is not closed"),
    ("\n\n---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!3:1: the front matter does not stand at the top of the file"),
    ("\r\n---\r\ndescription: d\r\nallowed-tools: Bash(git status *)\r\n---\r\nDo it.\r\n", "!2:1: the front matter does not stand at the top of the file"),
    ("Hello.\n\n---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-1:1: there is no front matter"),
    ("# Skill\n---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-1:1: there is no front matter"),
    ("```yaml\n---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n```\n", "-1:1: there is no front matter"),
    ("```\n---\ndescription: d\n---\n```\n", "-1:1: there is no front matter"),
    (" ---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-1:1: there is no front matter"),
    ("\u{200b}---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-1:1: there is no front matter"),
    ("name: a\ndescription: d\n---\nDo it.\n", "-1:1: there is no front matter"),
    ("<!-- x -->\n---\ndescription: d\n---\nDo it.\n", "-1:1: there is no front matter"),
    ("\u{feff}\u{feff}---\ndescription: d\n---\nDo it.\n", "-1:1: there is no front matter"),
    ("---\ndescription: d\nname: a\0b\n---\nDo it.\n", "-3:1: there is a NUL character"),
    ("---\ndescription: d\n---\nDo\0it\n", "-4:1: there is a NUL character"),
    ("+++\ndescription = \"d\"\n+++\nDo it.\n", "-1:1: there is no front matter"),
    ("{\"description\": \"d\"}\n", "-1:1: there is no front matter"),
    ("---json\n{}\n---\n", "-1:1: there is no front matter"),
    ("---\ndescription: use: this\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!2:17: the front matter is not valid YAML: mapping values are not allowed in this context"),
    ("---\ndescription: Use when: a\n  continues here\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!2:22: the front matter is not valid YAML: mapping values are not allowed in this context"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nargument-hint: [a] [b]\n---\nDo it.\n", "!4:20: the front matter is not valid YAML: while parsing a block mapping, did not find expected key"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nargument-hint: <a> [b]: c\n---\nDo it.\n", "!4:23: the front matter is not valid YAML: mapping values are not allowed in this context"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nname: \"a\n---\nDo it.\n", "!4:7: the front matter is not valid YAML: unclosed quote"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nname: 'a\n---\nDo it.\n", "!4:7: the front matter is not valid YAML: unclosed quote"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmetadata: {\"a\": \"b\"\n---\nDo it.\n", "-4:11: the front matter is not valid YAML: unclosed bracket '{'"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmetadata:\n{\"a\": 1, b}\n---\nDo it.\n", "-5:1: the front matter is not valid YAML: simple key expected ':'"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: [read_file\n---\nDo it.\n", "-4:16: the front matter is not valid YAML: unclosed bracket '['"),
    ("---\ndescription: @handle\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!2:14: the front matter is not valid YAML: unexpected character: `@'"),
    ("---\ndescription: `code` first\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!2:14: the front matter is not valid YAML: unexpected character: ``'"),
    ("---\ndescription: %x\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!2:14: the front matter is not valid YAML: unexpected character: `%'"),
    ("---\ndescription: \"a\" b\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!2:18: the front matter is not valid YAML: invalid trailing content after double-quoted scalar"),
    ("---\ndescription: *bold* text\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!2:14: the front matter is not valid YAML: while parsing node, found unknown anchor"),
    ("---\ndescription: &amp and\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-2:19: the front matter is not valid YAML: references are not allowed here"),
    ("---\ndescription: !important x\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-2:25: the front matter is not valid YAML: tags are not allowed here"),
    ("---\ndescription: d\nmetadata: &a {b: *a}\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-3:14: the front matter is not valid YAML: references are not allowed here"),
    ("---\ndescription: d\nmetadata: !!binary aGk=\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-3:20: the front matter is not valid YAML: tags are not allowed here"),
    ("---\ndescription: d\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-3:1: the front matter is not valid YAML: the key `description` stands twice"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-4:1: the front matter is not valid YAML: the key `allowed-tools` stands twice"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nName: a\nname: b\nname: c\n---\nDo it.\n", "-6:1: the front matter is not valid YAML: the key `name` stands twice"),
    ("---\ndescription: d\n\tname: a\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-2:14: the front matter is not valid YAML: while scanning a plain scalar, found a tab"),
    ("---\ndescription: d\nmetadata:\n\ta: b\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-4:2: the front matter is not valid YAML: tabs disallowed within this context (block indentation)"),
    ("---\ndescription: d\n  name: a\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-3:7: the front matter is not valid YAML: mapping values are not allowed in this context"),
    ("---\n- description: d\n- allowed-tools: Bash(git status *)\n---\nDo it.\n", "-2:1: the front matter is not valid YAML: this is not a mapping of keys to values"),
    ("---\njust text\n---\nDo it.\n", "-2:1: the front matter is not valid YAML: this is not a mapping of keys to values"),
    ("---\n42\n---\nDo it.\n", "-2:1: the front matter is not valid YAML: this is not a mapping of keys to values"),
    ("---\n[a, b]\n---\nDo it.\n", "-2:1: the front matter is not valid YAML: this is not a mapping of keys to values"),
    ("---\ndescription: d\n? [a, b]\n: c\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-3:8: the front matter is not valid YAML: a key must be text"),
    ("---\ndescription: d\n[a]: b\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-3:3: the front matter is not valid YAML: a key must be text"),
    ("---\ndescription: d\n<<<<<<< HEAD\nname: a\n=======\nname: b\n>>>>>>> x\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-3:1: the front matter has merge conflict markers"),
    ("---\ndescription: d\nname: \"\\x\"\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!3:7: the front matter is not valid YAML: while parsing a quoted scalar, did not find expected hexadecimal number"),
    ("---\ndescription: d\nmetadata: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-3:35: the front matter is not valid YAML: the front matter is too long or nested too deep"),
    ("---\ndescription: d\nname a\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-3:1: the front matter is not valid YAML: simple key expected ':'"),
    ("---\ndescription: d\nname:a\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!3:1: the front matter is not valid YAML: simple key expected ':'"),
    ("---\ndescription: d\nkey: - a\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!3:6: the front matter is not valid YAML: block sequence entries are not allowed in this context"),
    ("---\ndescription: d\nkey: |x\n  a\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "-3:6: the front matter is not valid YAML: while scanning a block scalar, did not find expected comment or line break"),
    ("---\ndescription: d\nkey: }\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!3:6: the front matter is not valid YAML: misplaced bracket"),
    ("---\ndescription: d\nname: \u{1}\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!3:7: the front matter is not valid YAML: unexpected character: `\\u{1}'"),
    ("---\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "~1:1: there is no `description`; the first paragraph stands in for it"),
    ("---\nname: a\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "~1:1: there is no `description`; the first paragraph stands in for it"),
    ("---\ndescription:\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "~2:1: there is no `description`; the first paragraph stands in for it"),
    ("---\ndescription: \"\"\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "~2:1: there is no `description`; the first paragraph stands in for it"),
    ("---\ndescription: '  '\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "~2:1: there is no `description`; the first paragraph stands in for it"),
    ("---\ndescription: [a, b]\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!2:14: `description` is not a text"),
    ("---\ndescription: {a: b}\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!2:14: `description` is not a text"),
    ("---\ndescription: ~\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "~2:1: there is no `description`; the first paragraph stands in for it"),
    ("---\nname: a\n---\n", "-1:1: there is no `description`"),
    ("---\ndescription: []\n---\n# only a heading\n", "-2:1: there is no `description`"),
    ("---\n---\nDo it.\n", "~1:1: there is no `description`; the first paragraph stands in for it"),
    ("---\n# nothing\n---\nDo it.\n", "~1:1: there is no `description`; the first paragraph stands in for it"),
    ("---\ndescripton: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "~2:1: unknown key `descripton`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nuser_invocable: false\n---\nDo it.\n", "!4:1: unknown key `user_invocable`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nuserInvocable: false\n---\nDo it.\n", "!4:1: unknown key `userInvocable`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nuser-invokable: false\n---\nDo it.\n", "!4:1: unknown key `user-invokable`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisable_model_invocation: true\n---\nDo it.\n", "!4:1: unknown key `disable_model_invocation`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisableModelInvocation: true\n---\nDo it.\n", "!4:1: unknown key `disableModelInvocation`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisable-model-invocaton: true\n---\nDo it.\n", "!4:1: unknown key `disable-model-invocaton`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nallowed_tools: Read\n---\nDo it.\n", "!4:1: unknown key `allowed_tools`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nallowedTools: [Read]\n---\nDo it.\n", "!4:1: unknown key `allowedTools`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nAllowed-Tools: Read\n---\nDo it.\n", "!4:1: unknown key `Allowed-Tools`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nallowed-tool: Read\n---\nDo it.\n", "!4:1: unknown key `allowed-tool`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowed_tools: Bash\n---\nDo it.\n", "!4:1: unknown key `disallowed_tools`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowedTools: Bash\n---\nDo it.\n", "!4:1: unknown key `disallowedTools`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel-invocation: user-only\n---\nDo it.\n", "!4:1: unknown key `model-invocation`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmodelInvocation: disabled\n---\nDo it.\n", "!4:1: unknown key `modelInvocation`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nskill-format: corteza.skill/v1\n---\nDo it.\n", "!4:1: unknown key `skill-format`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_formt: x\n---\nDo it.\n", "!4:1: unknown key `skill_formt`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nside-effects: [network]\n---\nDo it.\n", "!4:1: unknown key `side-effects`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nsideEffects: none\n---\nDo it.\n", "!4:1: unknown key `sideEffects`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntool: {allow: [read_file]}\n---\nDo it.\n", "!4:1: unknown key `tool`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nTools: {deny: [bash]}\n---\nDo it.\n", "!4:1: unknown key `Tools`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntols: {}\n---\nDo it.\n", "!4:1: unknown key `tols`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntrusts: local\n---\nDo it.\n", "!4:1: unknown key `trusts`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\npath: src/**\n---\nDo it.\n", "!4:1: unknown key `path`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nargument: [a]\n---\nDo it.\n", "!4:1: unknown key `argument`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nto\u{200b}ols: {deny: [bash]}\n---\nDo it.\n", "!4:1: unknown key `to\\u{200b}ols`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ncontxt: fork\n---\nDo it.\n", "!4:1: unknown key `contxt`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nlicence: MIT\n---\nDo it.\n", "~4:1: unknown key `licence`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ncompatability: x\n---\nDo it.\n", "~4:1: unknown key `compatability`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nwhen-to-use: x\n---\nDo it.\n", "~4:1: unknown key `when-to-use`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmetdata: {}\n---\nDo it.\n", "~4:1: unknown key `metdata`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_format: corteza.skill/v2\n---\nDo it.\n", "-4:15: `skill_format` is `corteza.skill/v2`, which this program cannot read"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_format: v1\n---\nDo it.\n", "-4:15: `skill_format` is `v1`, which this program cannot read"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_format: 1\n---\nDo it.\n", "-4:15: `skill_format` is `1`, which this program cannot read"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_format:\n---\nDo it.\n", "-4:13: `skill_format` is ``, which this program cannot read"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_format: [corteza.skill/v1]\n---\nDo it.\n", "-4:15: `skill_format` is ``, which this program cannot read"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel_invocation: never\n---\nDo it.\n", "!4:19: `model_invocation` has the unknown value `never`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel_invocation:\n---\nDo it.\n", "!4:17: `model_invocation` has a value of the wrong kind"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel_invocation: User-Only\n---\nDo it.\n", "!4:19: `model_invocation` has the unknown value `User-Only`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel_invocation: [auto]\n---\nDo it.\n", "!4:19: `model_invocation` has a value of the wrong kind"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel_invocation: true\n---\nDo it.\n", "!4:19: `model_invocation` has the unknown value `true`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisable-model-invocation: maybe\n---\nDo it.\n", "!4:27: `disable-model-invocation` is neither true nor false"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisable-model-invocation:\n---\nDo it.\n", "!4:25: `disable-model-invocation` is neither true nor false"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisable-model-invocation: [true]\n---\nDo it.\n", "!4:27: `disable-model-invocation` is neither true nor false"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nuser-invocable: nope\n---\nDo it.\n", "!4:17: `user-invocable` is neither true nor false"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nuser-invocable: {}\n---\nDo it.\n", "!4:17: `user-invocable` is neither true nor false"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: [[read_file]]\n---\nDo it.\n", "!4:8: `tools` is neither a text nor a list of texts"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: read_file, Read(\n---\nDo it.\n", "!4:8: `tools`: `Read(` has unbalanced parentheses"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools:\n---\nDo it.\n", "!4:6: `tools` is neither a list of tools nor a mapping with `allow` and `deny`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {}\n---\nDo it.\n", "!4:8: `tools` is empty"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: }\n---\nDo it.\n", "!4:14: `tools.allow` has no value"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {alow: [read_file]}\n---\nDo it.\n", "!4:9: `tools` has the unknown key `alow`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: {a: b}}\n---\nDo it.\n", "!4:16: `tools.allow` is a mapping"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: [[a]]}\n---\nDo it.\n", "!4:17: an entry of `tools.allow` is not a text"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: [read file/]}\n---\nDo it.\n", "!4:17: `tools.allow`: `read file/` contains the character ` `, which names of tools cannot contain"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {deny: [\"a b\"], allow: [\":x\"]}\n---\nDo it.\n", "!4:32: `tools.allow`: `:x` names nothing before or after its `:`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: [\"bash(git *)\"]}\n---\nDo it.\n", "!4:17: `tools.allow`: `bash(git *)` contains the character `(`, which names of tools cannot contain"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {deny: \"Bash(git\"}\n---\nDo it.\n", "!4:15: `tools.deny`: `Bash(git` has unbalanced parentheses"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowed-tools:\n---\nDo it.\n", "!4:17: `disallowed-tools` has no value"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowed-tools: {Bash: true}\n---\nDo it.\n", "!4:19: `disallowed-tools` is neither a text nor a list of texts"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowed-tools: \"Bash(git push\"\n---\nDo it.\n", "!4:19: `disallowed-tools`: `Bash(git push` has unbalanced parentheses"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowed-tools: Bash(git push:*)\n---\nDo it.\n", "~4:19: `disallowed-tools`: `Bash(git push:*)` is meant to deny only some calls of `Bash`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nside_effects: [filesystem, everything]\n---\nDo it.\n", "!4:28: `side_effects` has the unknown value `everything`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nside_effects: {}\n---\nDo it.\n", "!4:15: `side_effects` is a mapping"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nside_effects: [none, network]\n---\nDo it.\n", "!4:15: `side_effects` has `none` together with others"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nside_effects:\n---\nDo it.\n", "!4:13: `side_effects` has no value"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nside_effects: [[network]]\n---\nDo it.\n", "!4:16: an entry of `side_effects` is not a text"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntrust: root\n---\nDo it.\n", "!4:8: `trust` has the unknown value `root`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ntrust: [user]\n---\nDo it.\n", "!4:8: `trust` has a value of the wrong kind"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ninteraction: oneshot\n---\nDo it.\n", "!4:14: `interaction` has the unknown value `oneshot`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ncontext: frok\n---\nDo it.\n", "!4:10: `context` has the unknown value `frok`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ncontext:\n---\nDo it.\n", "!4:8: `context` has a value of the wrong kind"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nattach: perhaps\n---\nDo it.\n", "!4:9: `attach` is neither true nor false"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nlibrary_depends: {a: b}\n---\nDo it.\n", "!4:18: `library_depends` is a mapping"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\npaths: {a: b}\n---\nDo it.\n", "!4:8: `paths` is a mapping"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\npaths: [\"a{b\"]\n---\nDo it.\n", "!4:9: `paths`: `a{b` unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\npaths: \"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}\"\n---\nDo it.\n", "!4:8: `paths`: `{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}` is too long"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\npaths:\n---\nDo it.\n", "!4:6: `paths` has no value"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {properties: {a: {}}}\n---\nDo it.\n", "!4:12: `arguments`: there is no `schema` in it"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {schema: 5}\n---\nDo it.\n", "!4:12: `arguments`: there is no `schema` in it"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {schema: {type: string}}\n---\nDo it.\n", "!4:12: `arguments`: the schema must have `type: object`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {schema: {properties: {a: {type: strnig}}}}\n---\nDo it.\n", "!4:12: `arguments`: "),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {schema: {type: object}, more: 1}\n---\nDo it.\n", "!4:12: `arguments`: there is more than `schema` in it"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: [\"a b\"]\n---\nDo it.\n", "!4:13: `arguments`: `a b` cannot be a name"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: [$a]\n---\nDo it.\n", "!4:13: `arguments`: `$a` cannot be a name"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: 5 $\n---\nDo it.\n", "!4:12: `arguments`: `$` cannot be a name"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {schema: {properties: {a: {$ref: 'http://x/y'}}}}\n---\nDo it.\n", "!4:12: `arguments`: "),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmetadata: text\n---\nDo it.\n", "~4:11: `metadata` is not a mapping"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nmetadata: [a]\n---\nDo it.\n", "~4:11: `metadata` is not a mapping"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nrequires: jq\n---\nDo it.\n", "~4:11: `requires` is not a mapping with `bins`, `any_bins` and `env`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nrequires: {bins: 5}\n---\nDo it.\n", "~4:11: `requires` is not a mapping with `bins`, `any_bins` and `env`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\ngenerated_from: x\n---\nDo it.\n", "~4:17: `generated_from` is not a mapping with `package`, `version` and `source_hash`"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nlicense: [MIT]\n---\nDo it.\n", "~4:10: `license` is not a text"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nname: [a]\n---\nDo it.\n", "~4:7: `name` is not a text"),
    ("---\ndescription: d\nallowed-tools: Bash(git status *)\nname: {a: b}\n---\nDo it.\n", "~4:7: `name` is not a text"),
    ("---\ndescription: d\nallowed-tools: Bash\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash` would be every command"),
    ("---\ndescription: d\nallowed-tools: Bash(*)\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash(*)` would be every command"),
    ("---\ndescription: d\nallowed-tools: Bash(:*)\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash(:*)` would be every command"),
    ("---\ndescription: d\nallowed-tools: \"*\"\n---\nDo it.\n", "~3:16: `allowed-tools`: `*` names no single tool"),
    ("---\ndescription: d\nallowed-tools: Bash(api:auth-*)\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash(api:auth-*)` names no program"),
    ("---\ndescription: d\nallowed-tools: Bash(* x)\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash(* x)` names no program"),
    ("---\ndescription: d\nallowed-tools: Bash(git:* push)\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash(git:* push)` names no program"),
    ("---\ndescription: d\nallowed-tools: Bash(sh -c *)\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash(sh -c *)` would be every command"),
    ("---\ndescription: d\nallowed-tools: Bash(/bin/sudo *)\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash(/bin/sudo *)` would be every command"),
    ("---\ndescription: d\nallowed-tools: Bash(a && b)\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash(a && b)` is more than one command"),
    ("---\ndescription: d\nallowed-tools: Bash(git\n---\nDo it.\n", "!3:16: `allowed-tools`: `Bash(git` has unbalanced parentheses"),
    ("---\ndescription: d\nallowed-tools: Read)\n---\nDo it.\n", "!3:16: `allowed-tools`: `Read)` has unbalanced parentheses"),
    ("---\ndescription: d\nallowed-tools: \n---\nDo it.\n", "!3:14: `allowed-tools` has no value"),
    ("---\ndescription: d\nallowed-tools: {Bash: true}\n---\nDo it.\n", "!3:16: `allowed-tools` is neither a text nor a list of texts"),
    ("---\ndescription: d\nallowed-tools: [[Bash]]\n---\nDo it.\n", "!3:16: `allowed-tools` is neither a text nor a list of texts"),
    ("---\ndescription: d\nallowed-tools: WebFetch(domain:x)\n---\nDo it.\n", "~3:16: `allowed-tools`: `WebFetch(domain:x)` names only some calls"),
    ("---\ndescription: d\nallowed-tools: [Bash]\n---\nDo it.\n", "~3:17: `allowed-tools`: `Bash` would be every command"),
    ("---\ndescription: d\nallowed-tools: mcp__*\n---\nDo it.\n", "~3:16: `allowed-tools`: `mcp__*` names no single tool"),
    ("---\ndescription: d\nallowed-tools: Bash(A=1 git *)\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash(A=1 git *)` names no program"),
    ("---\ndescription: d\nallowed-tools: \"Bash($(x) *)\"\n---\nDo it.\n", "~3:16: `allowed-tools`: `Bash($(x) *)` is more than one command"),
    ("---\ndescription: d\ntools.deny: [bash]\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!3:1: unknown key `tools.deny`"),
    ("---\ndescription: d\ntools_allow: [read_file]\nallowed-tools: Bash(git status *)\n---\nDo it.\n", "!3:1: unknown key `tools_allow`"),
    ("---\ndescription: d\ndeny: [bash]\n---\nDo it.\n", "!3:1: unknown key `deny`"),
    ("---\ndescription: d\ndenied-tools: [bash]\n---\nDo it.\n", "!3:1: unknown key `denied-tools`"),
    ("---\ndescription: d\n\"to\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}ols\": {deny: [bash]}\n---\nDo it.\n", "!3:1: unknown key `to"),
    ("---\ndescription: d\ndisallowed-tools: {Bash: true}\n---\nDo it.\n", "!3:19: `disallowed-tools` is neither a text nor a list of texts"),
    ("---\ndescription: d\ntools: {deny: {bash: true}}\n---\nDo it.\n", "!3:15: `tools.deny` is neither a text nor a list of texts"),
    ("---\ndescription: d\ntools: {deny: {bash: true}, allow: [bash]}\n---\nDo it.\n", "!3:15: `tools.deny` is neither a text nor a list of texts"),
];

/// Files that were meant to deny `bash`, in damaged forms from which the intention cannot be
/// recovered.
const DENYING: [&str; 8] = [
    "disallowed-tools: {Bash: true}",
    "disallowed-tools: 'Bash('",
    "tools: {deny: {bash: true}}",
    "tools: {deny: {bash: true}, allow: [bash]}",
    "tools: {alow: [read_file], allow: [bash]}",
    "tools.deny: [bash]",
    "tools_allow: [read_file]",
    "denied-tools: bash",
];

#[test]
fn an_unreadable_restriction_allows_no_tool() {
    for key in DENYING {
        let own = parse_skill(&format!("description: d\n{key}"), "Do it.");
        assert!(!own.tools.permits("bash", None), "{key}");
        let swapped = parse_skill(&format!("{key}\ndescription: d"), "Do it.");
        assert!(!swapped.tools.permits("bash", None), "{key}");
    }
    let many: Vec<String> = (0..501).map(|n| format!("t{n}")).collect();
    let many = format!("description: d\ndisallowed-tools: [{}]", many.join(", "));
    assert!(!parse_skill(&many, "Do it.").tools.permits("bash", None));
}

#[test]
fn too_many_keys_are_refused_and_many_notes_do_not_hide_a_fault() {
    let keys = |n: usize| (0..n).map(|n| format!("aa{n}zz: x\n")).collect::<String>();
    let text = format!("---\ndescription: d\n{}---\nDo it.\n", keys(4_000));
    let refused = parse_text("folder", &text).unwrap_err();
    assert!(
        refused.diagnostics[0].text.contains("more than 200 keys"),
        "{refused:?}"
    );
    let text = format!(
        "---\ndescription: d\n{}user_invocable: false\n---\nDo it.\n",
        keys(60)
    );
    let skill = parse_text("folder", &text).unwrap();
    assert!(skill.is_restricted);
    let faults = skill.diagnostics.iter();
    assert_eq!(faults.filter(|d| d.severity == Severity::Error).count(), 1);
}

fn parse_findings(text: &str) -> (Vec<String>, Option<Skill>) {
    let (mark, diagnostics, skill) = match parse_text("folder", text) {
        Err(unusable) => ("-", unusable.diagnostics, None),
        Ok(skill) if skill.is_restricted => ("!", skill.diagnostics.clone(), Some(skill)),
        Ok(skill) => ("~", skill.diagnostics.clone(), Some(skill)),
    };
    let faults = diagnostics.iter().filter(|d| d.severity > Severity::Note);
    let faults = faults.map(|d| {
        assert!(!d.hint.is_empty(), "{d:?} of {text:?}");
        let (line, column) = (d.line, d.column);
        assert!(
            line >= 1 && column >= 1 && line <= text.lines().count().max(1),
            "{d:?} of {text:?}"
        );
        format!("{mark}{line}:{column}: {}", d.text)
    });
    (faults.collect(), skill)
}

#[test]
fn a_malformed_skill_file_has_one_finding_and_gets_no_permissions() {
    let mut wrong = Vec::new();
    for (text, expected) in MALFORMED {
        let (faults, skill) = parse_findings(text);
        if faults.len() != 1 || !faults[0].starts_with(expected) {
            wrong.push(format!("    ({text:?}, {:?}),", faults.join(" AND ")));
        }
        let Some(skill) = skill else { continue };
        if skill.is_restricted {
            assert_ne!(skill.invocation, SkillInvocationRule::Auto, "{text:?}");
            assert!(skill.spares.is_empty(), "{text:?}");
        }
        for spare in &skill.spares {
            // No other permission in `MALFORMED` has a valid form.
            assert_eq!(spare.to_string(), "bash(git status *)", "{text:?}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn parse_skill(front: &str, body: &str) -> Skill {
    parse_text("folder", &format!("---\n{front}\n---\n{body}")).unwrap()
}

#[test]
fn the_worked_example_loads_as_written() {
    let front = "skill_format: corteza.skill/v1\nname: autoresearch\n\
                 description: Bounded autonomous research loop into a pensar vault.\nmodel_invocation: user-only\n\
                 side_effects: [filesystem, network]\nlibrary_depends: [pensar, llm.api]\nattach: false\ntools:\n  \
                 allow: [web_search, pensar_ingest_url, pensar_search_pages,\n          pensar_related_pages, \
                 pensar_write_page, finalize]\ntrust: package\ninteraction: returning";
    let skill = parse_skill(front, "Search, then write.\n");
    assert_eq!(skill.label, "autoresearch");
    assert_eq!(skill.invocation, SkillInvocationRule::UserOnly);
    assert_eq!(
        skill.side_effects,
        [SideEffect::Filesystem, SideEffect::Network]
    );
    assert_eq!(skill.library_depends, ["pensar", "llm.api"]);
    assert!(!skill.attach && !skill.is_restricted && skill.spares.is_empty());
    let allow = skill.tools.allow.as_deref().unwrap();
    let names: Vec<&str> = allow.iter().map(SkillToolNamePattern::text).collect();
    assert_eq!(
        names.join(" "),
        "web_search pensar_ingest_url pensar_search_pages pensar_related_pages pensar_write_page finalize"
    );
    assert!(skill.tools.permits("finalize", Some("pensar")));
    assert!(!skill.tools.permits("bash", None));
    assert_eq!(skill.interaction, SkillLifetime::Returning);
    // A skill cannot raise its own trust.
    assert_eq!(skill.trust, Trust::User);
    let findings: Vec<&str> = skill.diagnostics.iter().map(|d| d.text.as_str()).collect();
    assert_eq!(
        findings,
        [
            "`trust: package` has no effect: the location of a skill decides its trust, which is user here"
        ]
    );
}

#[test]
fn front_matter_keys_of_claude_code_are_applied_or_reported() {
    let front = "name: my-label\nversion: 2.0\ndescription: >-\n  Reviews\n  changes.\nwhen_to_use: On review.\nallowed-tools: \
                 Read, Bash(git log:*), Bash(npm run test)\ndisallowed-tools: [Write, WebSearch]\n\
                 disable-model-invocation: Yes\nargument-hint: [path]\ncontext: fork\nagent: Explore\nmodel: opus\neffort: high\n\
                 paths: 'src/**/*.rs, docs/*.md'\nhooks: {PreToolUse: []}\nbackground: false\nauthor: Ada\nlicense: MIT";
    let skill = parse_skill(front, "Run !`touch x` and then $ARGUMENTS.\n");
    assert_eq!(
        (skill.id.as_str(), skill.label.as_str()),
        ("folder", "my-label")
    );
    assert_eq!(skill.version.as_deref(), Some("2.0"));
    assert_eq!(skill.description, "Reviews changes.");
    let spares: Vec<String> = skill.spares.iter().map(ToString::to_string).collect();
    assert_eq!(
        spares,
        ["read_file", "bash(git log *)", "bash(npm run test)"]
    );
    // `allowed-tools` does not restrict the tools.
    assert!(skill.tools.allow.is_none());
    assert!(!skill.tools.permits("write_file", None) && !skill.tools.permits("WebSearch", None));
    assert!(skill.tools.permits("bash", None));
    assert_eq!(skill.invocation, SkillInvocationRule::UserOnly);
    assert_eq!(skill.argument_hint.as_deref(), Some("[path]"));
    assert_eq!(skill.context, SkillExecutionContext::Fork);
    assert_eq!(skill.paths, ["src/**/*.rs", "docs/*.md"]);
    let notes: Vec<String> = skill
        .diagnostics
        .iter()
        .map(|d| format!("{}: {}", d.line, d.text))
        .collect();
    let expected = [
        "13: `agent` has no effect",
        "15: `effort` has no effect",
        "17: `hooks` has no effect",
        "18: `background` has no effect",
        "19: `author` has no meaning here",
        "22: the text has a command",
    ];
    assert_eq!(notes.len(), expected.len(), "{notes:?}");
    for (note, expected) in notes.iter().zip(expected) {
        assert!(note.starts_with(expected), "{notes:?}");
    }
    assert!(!skill.is_restricted);
}

#[test]
fn requirements_are_read_from_where_authors_put_them() {
    let front = "description: d\nrequires: {bins: [jq]}\nmetadata:\n  openclaw: {requires: {bins: [jq, gh], anyBins: [rg, grep], \
                 env: [TOKEN]}, install: [{kind: brew}]}";
    let skill = parse_skill(front, "");
    assert_eq!(skill.requires.bins, ["jq", "gh"]);
    assert_eq!(skill.requires.any_bins, ["rg", "grep"]);
    assert_eq!(skill.requires.env, ["TOKEN"]);
    struct MachineWithGrepOnly;
    impl crate::skill::ProgramAndVariableLookup for MachineWithGrepOnly {
        fn has_program(&self, name: &str) -> bool {
            name == "grep"
        }
        fn has_variable(&self, _: &str) -> bool {
            false
        }
    }
    let missing = skill.requires.missing_requirements(&MachineWithGrepOnly);
    assert_eq!(
        missing.join(", "),
        "the program `jq`, the program `gh`, the environment variable `TOKEN`"
    );
}

#[test]
fn a_skill_in_two_files_is_read() {
    let dir = PathBuf::from("old");
    let file = |text: &'static str, side: &'static str| {
        SkillFile {
            folder: "old",
            dir: &dir,
            real_dir: &dir,
            held: None,
            file: &dir,
            is_flat: false,
            source: &Source::Plugin("tools".to_owned()),
            trust: Trust::Project,
            bytes: text.as_bytes(),
            side: Some(side.as_bytes()),
        }
        .parse()
    };
    let side = r#"{"name": "Old", "description": "From the side \ud83e\udd16.", "metadata": {"requires": {"env": ["A"]}}}"#;
    let skill = file("Do it.\n", side).unwrap();
    assert_eq!(
        (skill.id.as_str(), skill.label.as_str()),
        ("tools:old", "Old")
    );
    assert_eq!(skill.description, "From the side \u{1f916}.");
    assert_eq!(skill.requires.env, ["A"]);
    let both = file("---\ndescription: front\n---\nDo it.\n", side).unwrap();
    assert_eq!(
        (both.description.as_str(), both.label.as_str()),
        ("front", "Old")
    );
    let error = file("Do it.\n", "{\n\"name\": }").unwrap_err();
    assert_eq!(error.diagnostics.last().unwrap().line, 2);
    // A side file does not repair a misplaced front matter.
    for front in [" ---", "\u{200b}---", "# Title\n---", "```yaml\n---"] {
        let text = format!(
            "{front}\ndisable-model-invocation: true\ntools: {{deny: [bash]}}\n---\nDo it.\n"
        );
        let text: &'static str = Box::leak(text.into_boxed_str());
        let refused = file(text, side).unwrap_err();
        assert_eq!(
            refused.diagnostics.last().unwrap().text,
            "there is no front matter"
        );
    }
    let ruled = file("Do it.\n\n---\n\nNote: that is all.\n", side).unwrap();
    assert_eq!(ruled.invocation, SkillInvocationRule::Auto);
}

#[test]
fn crlf_a_byte_order_mark_and_fences_in_the_body_change_nothing() {
    let text = "\u{feff}---\r\ndescription: d\r\nversion: 1\r\n---\r\nA\r\n---\r\nB\r\n";
    let skill = parse_text("folder", text).unwrap();
    assert_eq!(
        (skill.description.as_str(), &*skill.body),
        ("d", "A\r\n---\r\nB\r\n")
    );
    assert!(skill.diagnostics.is_empty(), "{:?}", skill.diagnostics);
}

#[test]
fn a_list_of_tools_is_read_as_the_tools_that_may_be_called() {
    for (list, allowed) in [
        (
            "Read, Glob, Grep",
            &["read_file", "list_files", "search"][..],
        ),
        ("[Read, Grep]", &["read_file", "search"]),
        ("Read Grep", &["read_file", "search"]),
        ("read_file, notes:find", &["read_file", "notes:find"]),
        // A tool that does not exist here cannot be called, and a tool with a specifier is not
        // allowed as a whole.
        ("Read, WebFetch", &["read_file"]),
        ("Read, Bash(git log *)", &["read_file"]),
        ("WebFetch", &[]),
    ] {
        let skill = parse_skill(&format!("description: Does it.\ntools: {list}"), "Do it.\n");
        assert!(!skill.is_restricted, "{list}: {:?}", skill.diagnostics);
        let names = skill.tools.allow.unwrap();
        let names: Vec<&str> = names.iter().map(SkillToolNamePattern::text).collect();
        assert_eq!(names, allowed, "{list}");
    }
}
