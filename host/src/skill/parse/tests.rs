//! Malformed files: one finding each, and no permission gained. And files that are in order, read as they were meant.

use super::super::scope::ToolPattern;
use super::*;
use crate::grant::SideEffect;
use crate::skill::{Context, Interaction, Invocation};

/// Each file, and its only finding that is no note. `-` stands before those that are not loaded at all, `!` before those that
/// are loaded for the user only, and `~` before those that lose only what is spoken of.
const MALFORMED: &[(&str, &str)] = &[
    ("", ""),
    ("\n \n\t\n", ""),
    ("Do it.\n", ""),
    ("# Title\n\nDo it.\n", ""),
    ("---\ndescription: d\nDo it.\n", ""),
    ("---\n", ""),
    ("---", ""),
    ("----\ndescription: d\n----\nDo it.\n", ""),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\n...\nDo it.\n",
        "",
    ),
    ("--- \ndescription: d\n-- -\nx\n", ""),
    (
        "\n\n---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "\r\n---\r\ndescription: d\r\nallowed-tools: Bash(git status *)\r\n---\r\nDo it.\r\n",
        "",
    ),
    (
        "Hello.\n\n---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "# Skill\n---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "```yaml\n---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n```\n",
        "",
    ),
    ("```\n---\ndescription: d\n---\n```\n", ""),
    (
        " ---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "\u{200b}---\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    ("name: a\ndescription: d\n---\nDo it.\n", ""),
    ("<!-- x -->\n---\ndescription: d\n---\nDo it.\n", ""),
    ("\u{feff}\u{feff}---\ndescription: d\n---\nDo it.\n", ""),
    ("---\ndescription: d\nname: a\0b\n---\nDo it.\n", ""),
    ("---\ndescription: d\n---\nDo\0it\n", ""),
    ("+++\ndescription = \"d\"\n+++\nDo it.\n", ""),
    ("{\"description\": \"d\"}\n", ""),
    ("---json\n{}\n---\n", ""),
    (
        "---\ndescription: use: this\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: Use when: a\n  continues here\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nargument-hint: [a] [b]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nargument-hint: <a> [b]: c\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nname: \"a\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nname: 'a\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmetadata: {\"a\": \"b\"\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmetadata:\n{\"a\": 1, b}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: [read_file\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: @handle\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: `code` first\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: %x\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: \"a\" b\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: *bold* text\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: &amp and\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: !important x\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nmetadata: &a {b: *a}\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nmetadata: !!binary aGk=\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\ndescription: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nName: a\nname: b\nname: c\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\n\tname: a\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nmetadata:\n\ta: b\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\n  name: a\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\n- description: d\n- allowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    ("---\njust text\n---\nDo it.\n", ""),
    ("---\n42\n---\nDo it.\n", ""),
    ("---\n[a, b]\n---\nDo it.\n", ""),
    (
        "---\ndescription: d\n? [a, b]\n: c\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\n[a]: b\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\n<<<<<<< HEAD\nname: a\n=======\nname: b\n>>>>>>> x\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nname: \"\\ud83e\\udd16\"\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nname: \"\\x\"\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nmetadata: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nname a\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nname:a\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nkey: - a\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nkey: |x\n  a\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nkey: }\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nname: \u{1}\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    ("---\nallowed-tools: Bash(git status *)\n---\nDo it.\n", ""),
    (
        "---\nname: a\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription:\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: \"\"\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: '  '\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: [a, b]\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: {a: b}\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: ~\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    ("---\nname: a\n---\n", ""),
    ("---\ndescription: []\n---\n# only a heading\n", ""),
    ("---\n---\nDo it.\n", ""),
    ("---\n# nothing\n---\nDo it.\n", ""),
    (
        "---\ndescripton: d\nallowed-tools: Bash(git status *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nuser_invocable: false\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nuserInvocable: false\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nuser-invokable: false\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisable_model_invocation: true\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisableModelInvocation: true\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisable-model-invocaton: true\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nallowed_tools: Read\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nallowedTools: [Read]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nAllowed-Tools: Read\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nallowed-tool: Read\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowed_tools: Bash\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowedTools: Bash\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel-invocation: user-only\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmodelInvocation: disabled\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nskill-format: corteza.skill/v1\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_formt: x\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nside-effects: [network]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nsideEffects: none\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntool: {allow: [read_file]}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nTools: {deny: [bash]}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntols: {}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntrusts: local\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\npath: src/**\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nargument: [a]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nto\u{200b}ols: {deny: [bash]}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ncontxt: fork\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nlicence: MIT\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ncompatability: x\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nwhen-to-use: x\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmetdata: {}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_format: corteza.skill/v2\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_format: v1\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_format: 1\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_format:\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nskill_format: [corteza.skill/v1]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel_invocation: never\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel_invocation:\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel_invocation: User-Only\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel_invocation: [auto]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmodel_invocation: true\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisable-model-invocation: maybe\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisable-model-invocation:\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisable-model-invocation: [true]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nuser-invocable: nope\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nuser-invocable: {}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: [read_file]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: read_file, search\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools:\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: }\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {alow: [read_file]}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: {a: b}}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: [[a]]}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: [read file/]}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {deny: [\"a b\"], allow: [\":x\"]}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {allow: [\"bash(git *)\"]}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntools: {deny: \"Bash(git\"}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowed-tools:\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowed-tools: {Bash: true}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowed-tools: \"Bash(git push\"\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ndisallowed-tools: Bash(git push:*)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nside_effects: [filesystem, everything]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nside_effects: {}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nside_effects: [none, network]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nside_effects:\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nside_effects: [[network]]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntrust: root\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ntrust: [user]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ninteraction: oneshot\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ncontext: frok\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ncontext:\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nattach: perhaps\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nlibrary_depends: {a: b}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\npaths: {a: b}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\npaths: [\"a{b\"]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\npaths: \"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}\"\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\npaths:\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {properties: {a: {}}}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {schema: 5}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {schema: {type: string}}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {schema: {properties: {a: {type: strnig}}}}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {schema: {type: object}, more: 1}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: [\"a b\"]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: [$a]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: 5 $\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\narguments: {schema: {properties: {a: {$ref: 'http://x/y'}}}}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmetadata: text\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nmetadata: [a]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nrequires: jq\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nrequires: {bins: 5}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\ngenerated_from: x\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nlicense: [MIT]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nname: [a]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git status *)\nname: {a: b}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(*)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(:*)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: \"*\"\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(api:auth-*)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(* x)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git:* push)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(sh -c *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(/bin/sudo *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(a && b)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(git\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Read)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash git)\n---\nDo it.\n",
        "",
    ),
    ("---\ndescription: d\nallowed-tools: \n---\nDo it.\n", ""),
    (
        "---\ndescription: d\nallowed-tools: {Bash: true}\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: [[Bash]]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: WebFetch(domain:x)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash (git *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: [Bash]\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: mcp__*\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: Bash(A=1 git *)\n---\nDo it.\n",
        "",
    ),
    (
        "---\ndescription: d\nallowed-tools: \"Bash($(x) *)\"\n---\nDo it.\n",
        "",
    ),
];

fn told(text: &str) -> (Vec<String>, Option<Skill>) {
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
fn a_malformed_file_has_one_finding_and_gains_nothing() {
    let mut wrong = Vec::new();
    for (text, expected) in MALFORMED {
        let (faults, skill) = told(text);
        if faults != [*expected] {
            wrong.push(format!("    ({text:?}, {:?}),", faults.join(" AND ")));
        }
        let Some(skill) = skill else { continue };
        if skill.is_restricted {
            assert_ne!(skill.invocation, Invocation::Auto, "{text:?}");
            assert!(skill.spares.is_empty(), "{text:?}");
        }
        for spare in &skill.spares {
            assert_eq!(spare.to_string(), "bash(git status *)", "{text:?}");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn skill(front: &str, body: &str) -> Skill {
    parse_text("folder", &format!("---\n{front}\n---\n{body}")).unwrap()
}

#[test]
fn the_worked_example_loads_as_written() {
    let front = "skill_format: corteza.skill/v1\nname: autoresearch\n\
                 description: Bounded autonomous research loop into a pensar vault.\nmodel_invocation: user-only\n\
                 side_effects: [filesystem, network]\nlibrary_depends: [pensar, llm.api]\nattach: false\ntools:\n  \
                 allow: [web_search, pensar_ingest_url, pensar_search_pages,\n          pensar_related_pages, \
                 pensar_write_page, finalize]\ntrust: package\ninteraction: returning";
    let skill = skill(front, "Search, then write.\n");
    assert_eq!(skill.label, "autoresearch");
    assert_eq!(skill.invocation, Invocation::UserOnly);
    assert_eq!(
        skill.side_effects,
        [SideEffect::Filesystem, SideEffect::Network]
    );
    assert_eq!(skill.library_depends, ["pensar", "llm.api"]);
    assert!(!skill.attach && !skill.is_restricted && skill.spares.is_empty());
    let allow = skill.tools.allow.as_deref().unwrap();
    let names: Vec<&str> = allow.iter().map(ToolPattern::text).collect();
    assert_eq!(
        names.join(" "),
        "web_search pensar_ingest_url pensar_search_pages pensar_related_pages pensar_write_page finalize"
    );
    assert!(skill.tools.permits("finalize", Some("pensar")));
    assert!(!skill.tools.permits("bash", None));
    assert_eq!(skill.interaction, Interaction::Returning);
    // Its own word raises no trust.
    assert_eq!(skill.trust, Trust::User);
    let findings: Vec<&str> = skill.diagnostics.iter().map(|d| d.text.as_str()).collect();
    assert_eq!(
        findings,
        ["`trust: package` has no effect: trust comes from where a skill lies, and that is user"]
    );
}

#[test]
fn the_keys_of_claude_code_are_honoured_or_named() {
    let front = "name: my-label\nversion: 2.0\ndescription: >-\n  Reviews\n  changes.\nwhen_to_use: On review.\nallowed-tools: \
                 Read, Bash(git log:*), Bash(npm run test)\ndisallowed-tools: [Write, WebSearch]\n\
                 disable-model-invocation: Yes\nargument-hint: [path]\ncontext: fork\nagent: Explore\nmodel: opus\neffort: high\n\
                 paths: 'src/**/*.rs, docs/*.md'\nhooks: {PreToolUse: []}\nbackground: false\nauthor: Ada\nlicense: MIT";
    let skill = skill(front, "Run !`touch x` and then $ARGUMENTS.\n");
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
    // To be spared a question restricts nothing.
    assert!(skill.tools.allow.is_none());
    assert!(!skill.tools.permits("write_file", None) && !skill.tools.permits("WebSearch", None));
    assert!(skill.tools.permits("bash", None));
    assert_eq!(skill.invocation, Invocation::UserOnly);
    assert_eq!(skill.argument_hint.as_deref(), Some("[path]"));
    assert_eq!(skill.context, Context::Fork);
    assert_eq!(skill.paths, ["src/**/*.rs", "docs/*.md"]);
    let notes: Vec<String> = skill
        .diagnostics
        .iter()
        .map(|d| format!("{}: {}", d.line, d.text))
        .collect();
    assert!(
        notes[0].starts_with("17: `hooks` has no effect"),
        "{notes:?}"
    );
    assert!(
        notes[1].starts_with("18: `background` has no effect"),
        "{notes:?}"
    );
    assert_eq!(notes[2], "19: `author` has no meaning here");
    assert!(
        notes[3].starts_with("22: the text has a command"),
        "{notes:?}"
    );
    assert!(!skill.is_restricted);
}

#[test]
fn requirements_are_read_from_where_authors_put_them() {
    let front = "description: d\nrequires: {bins: [jq]}\nmetadata:\n  openclaw: {requires: {bins: [jq, gh], anyBins: [rg, grep], \
                 env: [TOKEN]}, install: [{kind: brew}]}";
    let skill = skill(front, "");
    assert_eq!(skill.requires.bins, ["jq", "gh"]);
    assert_eq!(skill.requires.any_bins, ["rg", "grep"]);
    assert_eq!(skill.requires.env, ["TOKEN"]);
    struct Nothing;
    impl crate::skill::Available for Nothing {
        fn program(&self, name: &str) -> bool {
            name == "grep"
        }
        fn variable(&self, _: &str) -> bool {
            false
        }
    }
    let missing = skill.requires.missing(&Nothing);
    assert_eq!(
        missing.join(", "),
        "the program `jq`, the program `gh`, the environment variable `TOKEN`"
    );
}

#[test]
fn the_form_with_a_side_file_is_read() {
    let dir = PathBuf::from("old");
    let file = |text: &'static str, side: &'static str| {
        SkillFile {
            folder: "old",
            dir: &dir,
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

mod fuzz {
    use proptest::prelude::*;

    use super::*;

    /// A file of a front matter that is in order and restricts, damaged in a few places.
    const BASE: &str = "---\ndescription: d\nmodel_invocation: user-only\nallowed-tools: Bash(git status *)\ntools:\n  allow: [read_file]\n  deny: [bash]\n---\nBody\n";

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let text = String::from_utf8_lossy(&bytes);
            let _ = parse_text("folder", &format!("---\n{text}\n---\nx"));
            let _ = parse_text("folder", &text);
        }

        #[test]
        fn no_pieces_of_yaml_make_the_reader_panic(pieces in proptest::collection::vec(
            prop::sample::select(vec!["---\n", "tools", ": ", "\n", "  ", "- ", "[", "]", "{", "}", "\"", "'", "|", ">", "&a", "*a", "!!x",
                "allowed-tools", "Bash(", ")", "*", "description", "arguments", "schema", "true", "paths", "metadata", "\t", "\r", "#", "\u{200b}"]), 0..60)) {
            let text: String = pieces.concat();
            let _ = parse_text("folder", &format!("---\n{text}\n---\nx"));
            let _ = parse_text("folder", &text);
        }

        /// A key that is misspelt, a value that is cut or a line that is torn never turns a restriction into a permission: the
        /// model may not start the skill unless every line that restricts still stands as it was or is gone as a whole.
        #[test]
        fn damage_grants_nothing(at in 0..BASE.len(), removed in 0..3_usize, inserted in "[ -~]{0,2}") {
            let mut text = BASE.to_owned();
            let end = (at + removed).min(text.len());
            text.replace_range(at..end, &inserted);
            let Ok(skill) = parse_text("folder", &text) else { return Ok(()) };
            for spare in &skill.spares {
                prop_assert!(spare.command.as_ref().is_some_and(|c| c.text().contains("git")) || spare.tool != "bash", "{text}\n{spare}");
            }
            let is_whole = |line: &str| text.lines().any(|l| l == line);
            if skill.invocation == Invocation::Auto {
                // Only a comment, or another word that is no key of any kind, can take the line away.
                prop_assert!(!is_whole("model_invocation: user-only"), "{text}");
            }
            if skill.tools.permits("bash", None) && is_whole("  deny: [bash]") && is_whole("tools:") {
                prop_assert!(skill.invocation != Invocation::Auto, "{text}");
            }
        }
    }
}
