//! Converts JSON arguments of a tool call to values of the component model.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use wasmtime::component::types::{Record, Variant};
use wasmtime::component::{Type, Val};

use super::functions::ForeignFunction;
use super::schemas::{is_bytes, is_nullable};

/// Maximum length of a `list<u8>` argument, in bytes: in the host, each byte takes the memory of a
/// complete `Val`.
const MAX_LIST_BYTES: usize = 1 << 20;

impl ForeignFunction {
    /// Converts the arguments of a call, which already fit the schema. Checks what the schema
    /// cannot express, such as the length of a byte list.
    ///
    /// # Errors
    /// Returns a sentence for the caller, which names the argument.
    pub(super) fn read_arguments(&self, arguments: &Value) -> Result<Vec<Val>, String> {
        let values = self.parameters.iter().map(|(name, ty)| {
            let given = arguments.get(name).unwrap_or(&Value::Null);
            read_value(ty, given).map_err(|why| format!("the argument `{name}` {why}"))
        });
        values.collect()
    }
}

/// Converts one value. The error is phrased to follow the name of the argument.
fn read_value(ty: &Type, given: &Value) -> Result<Val, String> {
    Ok(match ty {
        Type::Bool => Val::Bool(given.as_bool().ok_or_else(|| wrong("true or false"))?),
        Type::S8 => Val::S8(read_integer(given)?),
        Type::U8 => Val::U8(read_integer(given)?),
        Type::S16 => Val::S16(read_integer(given)?),
        Type::U16 => Val::U16(read_integer(given)?),
        Type::S32 => Val::S32(read_integer(given)?),
        Type::U32 => Val::U32(read_integer(given)?),
        Type::S64 => Val::S64(read_digits(given)?),
        Type::U64 => Val::U64(read_digits(given)?),
        Type::Float32 => {
            let number = given.as_f64().ok_or_else(|| wrong("a number"))?;
            Val::Float32(narrow(number))
        }
        Type::Float64 => Val::Float64(given.as_f64().ok_or_else(|| wrong("a number"))?),
        Type::Char => {
            let mut letters = text_of(given)?.chars();
            match (letters.next(), letters.next()) {
                (Some(letter), None) => Val::Char(letter),
                _ => return Err(wrong("a text of one character")),
            }
        }
        Type::String => Val::String(text_of(given)?.to_owned()),
        Type::List(list) if is_bytes(&list.ty()) => {
            let bytes = STANDARD.decode(text_of(given)?);
            let bytes = bytes.map_err(|error| format!("is not base64: {error}"))?;
            if bytes.len() > MAX_LIST_BYTES {
                return Err(format!(
                    "has {} bytes, at most {MAX_LIST_BYTES} are supported",
                    bytes.len()
                ));
            }
            Val::List(bytes.into_iter().map(Val::U8).collect())
        }
        Type::List(list) => {
            let items = given.as_array().ok_or_else(|| wrong("an array"))?.iter();
            let element = list.ty();
            Val::List(
                items
                    .map(|item| read_value(&element, item))
                    .collect::<Result<_, _>>()?,
            )
        }
        Type::Tuple(tuple) => {
            let items = given.as_array().ok_or_else(|| wrong("an array"))?;
            if items.len() != tuple.types().len() {
                return Err(wrong("an array with an element for each of its types"));
            }
            let items = tuple
                .types()
                .zip(items)
                .map(|(ty, item)| read_value(&ty, item));
            Val::Tuple(items.collect::<Result<_, _>>()?)
        }
        Type::Record(record) => read_record(record, given)?,
        Type::Variant(variant) => read_variant(variant, given)?,
        Type::Enum(names) => {
            let text = text_of(given)?;
            match names.names().any(|name| name == text) {
                true => Val::Enum(text.to_owned()),
                false => return Err(wrong("one of its names")),
            }
        }
        Type::Flags(flags) => {
            let items = given.as_array().ok_or_else(|| wrong("an array"))?.iter();
            let set = items.map(|item| Ok(text_of(item)?.to_owned()));
            let set = set.collect::<Result<Vec<String>, String>>()?;
            let is_known = |name: &String| flags.names().any(|own| own == name);
            match set.iter().all(is_known) {
                true => Val::Flags(set),
                false => return Err(wrong("an array of its names")),
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
                        .ok_or_else(|| wrong("`{\"some\": …}` or null"))?,
                };
                Some(Box::new(read_value(&inner, given)?))
            }
        }),
        Type::Result(result) => {
            let case = |name: &str, ty: Option<Type>| {
                let given = given.get(name)?;
                let value = ty.map(|ty| read_value(&ty, given).map(Box::new));
                Some(value.transpose())
            };
            match (case("ok", result.ok()), case("err", result.err())) {
                (Some(ok), None) => Val::Result(Ok(ok?)),
                (None, Some(err)) => Val::Result(Err(err?)),
                _ => return Err(wrong("an object with `ok` or `err`")),
            }
        }
        _ => return Err("has a type without a JSON form".to_owned()),
    })
}

fn read_record(record: &Record, given: &Value) -> Result<Val, String> {
    let fields = given.as_object().ok_or_else(|| wrong("an object"))?;
    let values = record.fields().map(|field| {
        let given = fields.get(field.name).unwrap_or(&Value::Null);
        let value = read_value(&field.ty, given);
        let value = value.map_err(|why| format!("has a field `{}` that {why}", field.name))?;
        Ok((field.name.to_owned(), value))
    });
    Ok(Val::Record(values.collect::<Result<_, String>>()?))
}

fn read_variant(variant: &Variant, given: &Value) -> Result<Val, String> {
    let tag = given.get("tag").and_then(Value::as_str).unwrap_or_default();
    let Some(case) = variant.cases().find(|case| case.name == tag) else {
        return Err(wrong("an object whose `tag` names one of its cases"));
    };
    let value = case.ty.map(|ty| {
        let given = given.get("val").unwrap_or(&Value::Null);
        read_value(&ty, given).map(Box::new)
    });
    Ok(Val::Variant(tag.to_owned(), value.transpose()?))
}

fn wrong(expected: &str) -> String {
    format!("is not {expected}")
}

fn text_of(given: &Value) -> Result<&str, String> {
    given.as_str().ok_or_else(|| wrong("a text"))
}

fn read_integer<T: TryFrom<i64>>(given: &Value) -> Result<T, String> {
    // JSON Schema accepts `1.0` as an integer, and some callers write whole numbers like this.
    let whole = given.as_i64().or_else(|| {
        let number = given.as_f64()?;
        (number.fract() == 0.0).then(|| format!("{number}").parse().ok())?
    });
    let fits = whole.and_then(|whole| T::try_from(whole).ok());
    fits.ok_or_else(|| wrong("an integer in its range"))
}

fn read_digits<T: std::str::FromStr>(given: &Value) -> Result<T, String> {
    let text = text_of(given)?;
    text.parse()
        .map_err(|_| wrong("the digits of an integer in its range"))
}

/// Rounds to the nearest `f32`, as the component model does.
fn narrow(number: f64) -> f32 {
    number as f32
}
