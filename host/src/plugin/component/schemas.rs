//! Converts types of the component model to JSON Schema.
//!
//! | type | JSON |
//! |---|---|
//! | `bool`, `string` | the same |
//! | integers to 32 bits, floats | number, within the range |
//! | `u64`, `s64` | text of digits: numbers of JSON lose bits beyond 2^53 |
//! | `char` | text of one character |
//! | `list<u8>` | text in base64 |
//! | `list`, `tuple` | array |
//! | `record` | object; optional fields may be left out |
//! | `variant` | `{"tag": CASE, "val": VALUE}`, without `val` for a case without a value |
//! | `enum` | text |
//! | `flags` | array of names |
//! | `option` | the value or null; of an option in an option, `{"some": VALUE}` or null |
//! | `result` | `{"ok": VALUE}` or `{"err": VALUE}` |

use serde_json::{Map, Value, json};
use wasmtime::component::Type;

/// Maximum number of types and names within the parameters and results of one function. A type that
/// is used twice is written out twice, so without this limit a small component could expand to
/// millions of types.
pub(super) const MAX_TYPES_PER_FUNCTION: usize = 4096;

/// Returns the JSON Schema of a type. Subtracts the number of types within it from `room`, the
/// number that may still be used.
///
/// # Errors
/// The type has no JSON form, or `room` is used up. The error is phrased to follow the name of the
/// parameter.
pub(super) fn component_type_schema(ty: &Type, room: &mut usize) -> Result<Value, String> {
    count_types_toward_limit(room, 1)?;
    Ok(match ty {
        Type::Bool => json!({"type": "boolean"}),
        Type::S8 => integer_schema(i8::MIN.into(), i8::MAX.into()),
        Type::U8 => integer_schema(0, u8::MAX.into()),
        Type::S16 => integer_schema(i16::MIN.into(), i16::MAX.into()),
        Type::U16 => integer_schema(0, u16::MAX.into()),
        Type::S32 => integer_schema(i32::MIN.into(), i32::MAX.into()),
        Type::U32 => integer_schema(0, u32::MAX.into()),
        Type::S64 => json!({"type": "string", "pattern": "^-?[0-9]{1,19}$"}),
        Type::U64 => json!({"type": "string", "pattern": "^[0-9]{1,20}$"}),
        Type::Float32 | Type::Float64 => json!({"type": "number"}),
        Type::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        Type::String => json!({"type": "string"}),
        Type::List(list) if is_byte_type(&list.ty()) => {
            json!({"type": "string", "contentEncoding": "base64"})
        }
        Type::List(list) => {
            json!({"type": "array", "items": component_type_schema(&list.ty(), room)?})
        }
        Type::Tuple(tuple) => {
            let items = tuple.types().map(|ty| component_type_schema(&ty, room));
            let items = items.collect::<Result<Vec<Value>, String>>()?;
            let n_items = items.len();
            json!({"type": "array", "prefixItems": items, "minItems": n_items, "maxItems": n_items})
        }
        Type::Record(record) => {
            let (mut properties, mut required) = (Map::new(), Vec::new());
            for field in record.fields() {
                properties.insert(
                    field.name.to_owned(),
                    component_type_schema(&field.ty, room)?,
                );
                if !matches!(field.ty, Type::Option(_)) {
                    required.push(field.name.to_owned());
                }
            }
            json!({
                "type": "object", "properties": properties, "required": required,
                "additionalProperties": false,
            })
        }
        Type::Variant(variant) => {
            let mut cases = Vec::new();
            for case in variant.cases() {
                cases.push(tagged_object_schema(case.name, case.ty.as_ref(), room)?);
            }
            json!({"oneOf": cases})
        }
        Type::Enum(names) => {
            count_types_toward_limit(room, names.names().len())?;
            json!({"type": "string", "enum": names.names().collect::<Vec<_>>()})
        }
        Type::Flags(flags) => {
            let names: Vec<&str> = flags.names().collect();
            count_types_toward_limit(room, names.len())?;
            json!({"type": "array", "items": {"type": "string", "enum": names}, "uniqueItems": true})
        }
        Type::Option(option) => {
            let inner = option.ty();
            let some = match is_nullable(&inner) {
                false => component_type_schema(&inner, room)?,
                true => single_property_object_schema("some", Some(&inner), room)?,
            };
            json!({"anyOf": [some, {"type": "null"}]})
        }
        Type::Result(result) => {
            let [ok, err] = [("ok", result.ok()), ("err", result.err())]
                .map(|(name, ty)| single_property_object_schema(name, ty.as_ref(), room));
            json!({"oneOf": [ok?, err?]})
        }
        Type::Own(_) | Type::Borrow(_) => return reject_type_without_json("a resource"),
        Type::Future(_) => return reject_type_without_json("a future"),
        Type::Stream(_) => return reject_type_without_json("a stream"),
        Type::ErrorContext => return reject_type_without_json("an error context"),
        Type::Map(_) | Type::FixedLengthList(_) => {
            return reject_type_without_json("a map or a list of fixed length");
        }
    })
}

fn count_types_toward_limit(room: &mut usize, n: usize) -> Result<(), String> {
    let left = room.checked_sub(n);
    *room = left
        .ok_or_else(|| format!("refers to more than {MAX_TYPES_PER_FUNCTION} types and names"))?;
    Ok(())
}

fn reject_type_without_json<T>(what: &str) -> Result<T, String> {
    Err(format!("is or contains {what}, which has no JSON form"))
}

fn integer_schema(min: i64, max: i64) -> Value {
    json!({"type": "integer", "minimum": min, "maximum": max})
}

/// Whether a list with elements of this type is a byte string.
pub(super) fn is_byte_type(element: &Type) -> bool {
    matches!(element, Type::U8)
}

/// Whether JSON `null` is a valid value of the type. An option of such a type is written as an
/// object with `some`, so that its two kinds of absence differ.
pub(super) fn is_nullable(ty: &Type) -> bool {
    matches!(ty, Type::Option(_))
}

/// Returns the schema of an object with the one property `name`. Without `ty`, the property is
/// null.
fn single_property_object_schema(
    name: &str,
    ty: Option<&Type>,
    room: &mut usize,
) -> Result<Value, String> {
    let value = match ty {
        Some(ty) => component_type_schema(ty, room)?,
        None => json!({"type": "null"}),
    };
    Ok(json!({
        "type": "object", "properties": {name: value}, "required": [name],
        "additionalProperties": false,
    }))
}

fn tagged_object_schema(name: &str, ty: Option<&Type>, room: &mut usize) -> Result<Value, String> {
    let mut properties = Map::new();
    properties.insert("tag".to_owned(), json!({"const": name}));
    let mut required = vec!["tag"];
    if let Some(ty) = ty {
        properties.insert("val".to_owned(), component_type_schema(ty, room)?);
        required.push("val");
    }
    Ok(json!({
        "type": "object", "properties": properties, "required": required,
        "additionalProperties": false,
    }))
}
