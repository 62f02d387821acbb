//! Parses a plugin's module: the functions that are exported, the kind of each export, and whether
//! they are compatible.

use crate::function::{Function, ToolOptions, take_marker};
use crate::points::{self, Point};
use syn::{Attribute, Error, Ident, Item, ItemFn, ItemMod, LitStr, Meta, Result};

/// Maximum size of a tool's description, in bytes.
const MAX_DESCRIPTION: usize = 4096;

/// A parsed plugin.
pub(crate) struct Plugin {
    /// Module without the attributes that mark exports.
    pub(crate) module: ItemMod,
    /// Hooks with their extension points.
    pub(crate) hooks: Vec<(&'static Point, Function)>,
    /// Tools.
    pub(crate) tools: Vec<Tool>,
    /// Commands with their names.
    pub(crate) commands: Vec<(String, Function)>,
    /// Implementations of other plugins' points, with the points' names, `owner.name`.
    pub(crate) implementations: Vec<(String, Function)>,
    /// Function marked `#[run_loop]`.
    pub(crate) run_loop: Option<Function>,
    /// Function marked `#[agent_loop]`.
    pub(crate) agent_loop: Option<Function>,
}

/// A tool.
pub(crate) struct Tool {
    /// Name by which the model calls the tool.
    pub(crate) name: String,
    /// Variant of `EffectClass`.
    pub(crate) effect: Ident,
    /// Function of the author.
    pub(crate) function: Function,
}

impl Plugin {
    /// Parses a module. Errors in all functions are reported together.
    pub(crate) fn parse(mut module: ItemMod) -> Result<Self> {
        let Some((brace, items)) = module.content.take() else {
            let message = "write the plugin's module here: `mod name { … }`";
            return Err(Error::new(module.ident.span(), message));
        };
        let mut plugin = Self {
            module,
            hooks: Vec::new(),
            tools: Vec::new(),
            commands: Vec::new(),
            implementations: Vec::new(),
            run_loop: None,
            agent_loop: None,
        };
        let mut faults: Option<Error> = None;
        let mut kept = Vec::new();
        for mut item in items {
            if let Item::Fn(function) = &mut item
                && let Err(fault) = plugin.add(function)
            {
                match &mut faults {
                    Some(faults) => faults.combine(fault),
                    None => faults = Some(fault),
                }
            }
            kept.push(item);
        }
        if let Some(faults) = faults {
            return Err(faults);
        }
        if plugin.is_empty() {
            let message = "nothing is exported: mark a function `#[hook]`, `#[tool(effect = \"…\")]`, `#[command]`, \
                           `#[implements(\"owner.name\")]`, `#[run_loop]` or `#[agent_loop]`";
            return Err(Error::new(plugin.module.ident.span(), message));
        }
        plugin.module.content = Some((brace, kept));
        Ok(plugin)
    }

    fn is_empty(&self) -> bool {
        self.hooks.is_empty()
            && self.tools.is_empty()
            && self.commands.is_empty()
            && self.implementations.is_empty()
            && self.run_loop.is_none()
            && self.agent_loop.is_none()
    }

    fn add(&mut self, function: &mut ItemFn) -> Result<()> {
        let Some((marker, attribute)) = take_marker(function)? else {
            return Ok(());
        };
        match marker {
            "hook" => self.add_hook(&attribute, function),
            "tool" => self.add_tool(&attribute, function),
            "command" => self.add_command(&attribute, function),
            "implements" => self.add_implementation(&attribute, function),
            "agent_loop" => add_loop(&mut self.agent_loop, &attribute, function),
            _ => add_loop(&mut self.run_loop, &attribute, function),
        }
    }

    fn add_hook(&mut self, attribute: &Attribute, function: &ItemFn) -> Result<()> {
        plain(attribute)?;
        let point = points::find(&function.sig.ident)?;
        let hook = Function::parse(function, Some("payload"))?;
        if hook.parameter.is_none() {
            let message = format!(
                "the hook `{}` takes a payload, a `{}`",
                hook.name,
                simple(&point.payload())
            );
            return Err(Error::new(hook.name.span(), message));
        }
        if self.hooks.iter().any(|(other, _)| other.name == point.name) {
            let message = format!(
                "there is a hook on `{}` already; a plugin has one for each point",
                point.name
            );
            return Err(Error::new(hook.name.span(), message));
        }
        self.hooks.push((point, hook));
        Ok(())
    }

    fn add_tool(&mut self, attribute: &Attribute, function: &ItemFn) -> Result<()> {
        let options = ToolOptions::parse(attribute, &function.sig.ident)?;
        let function = Function::parse(function, Some("arguments"))?;
        let span = options
            .name
            .as_ref()
            .map_or(function.name.span(), LitStr::span);
        let name = options
            .name
            .map_or_else(|| function.name.to_string(), |name| name.value());
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            return Err(Error::new(
                span,
                "a tool's name is 1 to 64 letters, digits, `_` and `-`",
            ));
        }
        if function.docs.is_empty() {
            let message = format!(
                "the tool `{name}` needs a doc comment: it tells the model what the tool does"
            );
            return Err(Error::new(span, message));
        }
        if function.docs.len() > MAX_DESCRIPTION {
            let message = format!(
                "the doc comment has {} bytes; at most {MAX_DESCRIPTION}",
                function.docs.len()
            );
            return Err(Error::new(span, message));
        }
        if matches!(function.output, syn::ReturnType::Default) {
            let message =
                format!("the tool `{name}` returns nothing; it must return text for the model");
            return Err(Error::new(span, message));
        }
        if self.tools.iter().any(|other| other.name == name) {
            return Err(Error::new(
                span,
                format!("there is a tool `{name}` already"),
            ));
        }
        self.tools.push(Tool {
            name,
            effect: options.effect,
            function,
        });
        Ok(())
    }

    fn add_command(&mut self, attribute: &Attribute, function: &ItemFn) -> Result<()> {
        plain(attribute)?;
        let function = Function::parse(
            function,
            Some("arguments, or the text behind the command's name"),
        )?;
        let name = function.name.to_string().replace('_', "-");
        if function.docs.is_empty() {
            let message =
                format!("the command `/{name}` needs a doc comment: it is what `/help` says");
            return Err(Error::new(function.name.span(), message));
        }
        self.commands.push((name, function));
        Ok(())
    }

    fn add_implementation(&mut self, attribute: &Attribute, function: &ItemFn) -> Result<()> {
        let point: LitStr = attribute.parse_args()?;
        let name = point.value();
        if !name
            .split_once('.')
            .is_some_and(|(owner, point)| !owner.is_empty() && !point.is_empty())
        {
            return Err(Error::new(
                point.span(),
                "write the point as \"owner.name\"",
            ));
        }
        if self.implementations.iter().any(|(other, _)| *other == name) {
            return Err(Error::new(
                point.span(),
                format!("`{name}` is implemented already"),
            ));
        }
        self.implementations
            .push((name, Function::parse(function, Some("payload"))?));
        Ok(())
    }
}

/// Stores the function of a loop in `place`, which must be empty.
fn add_loop(place: &mut Option<Function>, attribute: &Attribute, function: &ItemFn) -> Result<()> {
    plain(attribute)?;
    let function = Function::parse(function, None)?;
    if place.is_some() {
        return Err(Error::new(
            function.name.span(),
            "there is a loop already; a plugin has one",
        ));
    }
    *place = Some(function);
    Ok(())
}

/// Checks that an attribute has no arguments.
fn plain(attribute: &Attribute) -> Result<()> {
    match &attribute.meta {
        Meta::Path(_) => Ok(()),
        meta => Err(Error::new_spanned(meta, "this attribute has no options")),
    }
}

/// Formats a type without its path, for messages.
fn simple(tokens: &proc_macro2::TokenStream) -> String {
    let text = tokens.to_string().replace(' ', "");
    ["::rind_sdk::prelude::", "::std::vec::", "::std::string::"]
        .iter()
        .fold(text, |text, path| text.replace(path, ""))
}

#[cfg(test)]
#[path = "module_tests.rs"]
mod tests;
