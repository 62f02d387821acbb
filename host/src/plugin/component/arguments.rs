//! Converts JSON arguments of a tool call to values of the component model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use wasmtime::component::types::{Record, Variant};
use wasmtime::component::{Type, Val};

use super::functions::ComponentFunction;
use super::schemas::{is_byte_type, is_nullable};

/// Maximum length of a `list<u8>` argument, in bytes: in the host, each byte takes the memory of a
/// complete `Val`.
const MAX_BYTE_LIST_ARGUMENT_LENGTH: usize = 1 << 20;

impl ComponentFunction {
    /// Converts the arguments of a call, which already fit the schema. Checks what the schema
    /// cannot express, such as the length of a byte list.
    ///
    /// # Errors
    /// Returns a sentence for the caller, which names the argument.
    pub(super) fn convert_arguments(&self, arguments: &Value) -> Result<Vec<Val>, String> {
        let values = self.parameters.iter().map(|(name, ty)| {
            let given = arguments.get(name).unwrap_or(&Value::Null);
            convert_argument_value(ty, given).map_err(|why| format!("the argument `{name}` {why}"))
        });
        values.collect()
    }
}

/// Converts one value to the type `ty`. The error text is a phrase that follows the name of the
/// argument.
fn convert_argument_value(ty: &Type, given: &Value) -> Result<Val, String> {
    Ok(match ty {
        Type::Bool => Val::Bool(
            given
                .as_bool()
                .ok_or_else(|| expected_value_error("true or false"))?,
        ),
        Type::S8 => Val::S8(expect_integer(given)?),
        Type::U8 => Val::U8(expect_integer(given)?),
        Type::S16 => Val::S16(expect_integer(given)?),
        Type::U16 => Val::U16(expect_integer(given)?),
        Type::S32 => Val::S32(expect_integer(given)?),
        Type::U32 => Val::U32(expect_integer(given)?),
        Type::S64 => Val::S64(parse_integer_text(given)?),
        Type::U64 => Val::U64(parse_integer_text(given)?),
        Type::Float32 => {
            let number = given
                .as_f64()
                .ok_or_else(|| expected_value_error("a number"))?;
            Val::Float32(round_to_f32(number))
        }
        Type::Float64 => Val::Float64(
            given
                .as_f64()
                .ok_or_else(|| expected_value_error("a number"))?,
        ),
        Type::Char => {
            let mut letters = expect_text(given)?.chars();
            match (letters.next(), letters.next()) {
                (Some(letter), None) => Val::Char(letter),
                _ => return Err(expected_value_error("a text of one character")),
            }
        }
        Type::String => Val::String(expect_text(given)?.to_owned()),
        Type::List(list) if is_byte_type(&list.ty()) => {
            let bytes = STANDARD.decode(expect_text(given)?);
            let bytes = bytes.map_err(|error| format!("is not base64: {error}"))?;
            if bytes.len() > MAX_BYTE_LIST_ARGUMENT_LENGTH {
                return Err(format!(
                    "has {} bytes, more than the maximum of {MAX_BYTE_LIST_ARGUMENT_LENGTH}",
                    bytes.len()
                ));
            }
            Val::List(bytes.into_iter().map(Val::U8).collect())
        }
        Type::List(list) => {
            let items = given
                .as_array()
                .ok_or_else(|| expected_value_error("an array"))?
                .iter();
            let element = list.ty();
            Val::List(
                items
                    .map(|item| convert_argument_value(&element, item))
                    .collect::<Result<_, _>>()?,
            )
        }
        Type::Tuple(tuple) => {
            let items = given
                .as_array()
                .ok_or_else(|| expected_value_error("an array"))?;
            if items.len() != tuple.types().len() {
                return Err(expected_value_error(
                    "an array with an element for each of its types",
                ));
            }
            let items = tuple
                .types()
                .zip(items)
                .map(|(ty, item)| convert_argument_value(&ty, item));
            Val::Tuple(items.collect::<Result<_, _>>()?)
        }
        Type::Record(record) => convert_record_value(record, given)?,
        Type::Variant(variant) => convert_variant_value(variant, given)?,
        Type::Enum(names) => {
            let text = expect_text(given)?;
            match names.names().any(|name| name == text) {
                true => Val::Enum(text.to_owned()),
                false => return Err(expected_value_error("one of its names")),
            }
        }
        Type::Flags(flags) => {
            let items = given
                .as_array()
                .ok_or_else(|| expected_value_error("an array"))?
                .iter();
            let set = items.map(|item| Ok(expect_text(item)?.to_owned()));
            let set = set.collect::<Result<Vec<String>, String>>()?;
            let is_known = |name: &String| flags.names().any(|own| own == name);
            match set.iter().all(is_known) {
                true => Val::Flags(set),
                false => return Err(expected_value_error("an array of its names")),
            }
        }
        Type::Option(option) => Val::Option(match given {
            Value::Null => None,
            given => {
                let inner = option.ty();
                let given = match is_nullable(&inner) {
                    false => given,
                    true => given
                        .get("some")
                        .ok_or_else(|| expected_value_error("`{\"some\": …}` or null"))?,
                };
                Some(Box::new(convert_argument_value(&inner, given)?))
            }
        }),
        Type::Result(result) => {
            let case = |name: &str, ty: Option<Type>| {
                let given = given.get(name)?;
                let value = ty.map(|ty| convert_argument_value(&ty, given).map(Box::new));
                Some(value.transpose())
            };
            match (case("ok", result.ok()), case("err", result.err())) {
                (Some(ok), None) => Val::Result(Ok(ok?)),
                (None, Some(err)) => Val::Result(Err(err?)),
                _ => return Err(expected_value_error("an object with `ok` or `err`")),
            }
        }
        _ => return Err("has a type without a JSON form".to_owned()),
    })
}

fn convert_record_value(record: &Record, given: &Value) -> Result<Val, String> {
    let fields = given
        .as_object()
        .ok_or_else(|| expected_value_error("an object"))?;
    let values = record.fields().map(|field| {
        let given = fields.get(field.name).unwrap_or(&Value::Null);
        let value = convert_argument_value(&field.ty, given);
        let value = value.map_err(|why| format!("has a field `{}` that {why}", field.name))?;
        Ok((field.name.to_owned(), value))
    });
    Ok(Val::Record(values.collect::<Result<_, String>>()?))
}

fn convert_variant_value(variant: &Variant, given: &Value) -> Result<Val, String> {
    let tag = given.get("tag").and_then(Value::as_str).unwrap_or_default();
    let Some(case) = variant.cases().find(|case| case.name == tag) else {
        return Err(expected_value_error(
            "an object whose `tag` names one of its cases",
        ));
    };
    let value = case.ty.map(|ty| {
        let given = given.get("val").unwrap_or(&Value::Null);
        convert_argument_value(&ty, given).map(Box::new)
    });
    Ok(Val::Variant(tag.to_owned(), value.transpose()?))
}

fn expected_value_error(expected: &str) -> String {
    format!("is not {expected}")
}

fn expect_text(given: &Value) -> Result<&str, String> {
    given.as_str().ok_or_else(|| expected_value_error("a text"))
}

fn expect_integer<T: TryFrom<i64>>(given: &Value) -> Result<T, String> {
    // JSON Schema accepts `1.0` as an integer, and some callers write whole numbers like this.
    let whole = given.as_i64().or_else(|| {
        let number = given.as_f64()?;
        (number.fract() == 0.0).then(|| format!("{number}").parse().ok())?
    });
    let fits = whole.and_then(|whole| T::try_from(whole).ok());
    fits.ok_or_else(|| expected_value_error("an integer in its range"))
}

fn parse_integer_text<T: std::str::FromStr>(given: &Value) -> Result<T, String> {
    let text = expect_text(given)?;
    text.parse()
        .map_err(|_| expected_value_error("the digits of an integer in its range"))
}

/// Rounds to the nearest `f32`, as the component model does.
fn round_to_f32(number: f64) -> f32 {
    number as f32
}
