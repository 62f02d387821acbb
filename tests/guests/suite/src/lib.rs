//! Offers tools with the names that the conformance suite of MCP asks a server for, as far as a plugin can have them.
#[rind_sdk::plugin]
mod suite {
    use std::collections::BTreeMap;

    use rind_sdk::prelude::*;

    /// An image of one dot.
    const DOT: &[u8] = include_bytes!("../../../recorded/dot.png");

    /// A sound of no length: 44 bytes that say so.
    const SILENCE: &[u8] =
        b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x44\xac\0\0\x88\x58\x01\0\x02\0\x10\0data\0\0\0\0";

    /// Answers text.
    #[tool(effect = "read")]
    fn test_simple_text() -> String {
        "This is a simple text response for testing.".to_owned()
    }

    /// Answers an image.
    #[tool(effect = "read")]
    fn test_image_content() -> Answer {
        Answer::bytes("image/png", DOT.to_vec())
    }

    /// Answers a sound.
    #[tool(effect = "read")]
    fn test_audio_content() -> Answer {
        Answer::bytes("audio/wav", SILENCE.to_vec())
    }

    /// Answers a file of text.
    #[tool(effect = "read")]
    fn test_embedded_resource() -> Answer {
        Answer::bytes(
            "text/plain",
            b"This is an embedded resource content.".to_vec(),
        )
    }

    /// Answers text, an image and a file.
    #[tool(effect = "read")]
    fn test_multiple_content_types() -> Answer {
        let file = br#"{"test":"data","value":123}"#.to_vec();
        Answer::text("Multiple content types test:")
            .and(test_image_content())
            .and(Answer::bytes("application/json", file))
    }

    /// Fails.
    #[tool(effect = "read")]
    fn test_error_handling() -> Result<String, Error> {
        Err(Error::Failed(
            "This tool intentionally returns an error for testing".to_owned(),
        ))
    }

    /// Tells how far it is, three times.
    #[tool(effect = "read")]
    fn test_tool_with_progress() -> String {
        for done in [0, 50, 100] {
            status::set(&format!("{done} of 100"));
        }
        "Done.".to_owned()
    }

    /// Question to put to the user.
    #[args]
    struct Asked {
        /// Question for the user, at most 1,000 bytes.
        message: String,
    }

    /// Asks the user.
    #[tool(effect = "read")]
    fn test_elicitation(args: Asked) -> Result<String, Error> {
        let said = ask::text(&args.message, "")?;
        Ok(format!("User response: {said}"))
    }

    fn confirmed() -> Result<String, Error> {
        let yes = ask::confirm("Please confirm", false)?;
        Ok(format!("state-ok: {yes}"))
    }

    /// Asks for a yes.
    #[tool(effect = "read")]
    fn test_input_required_result_request_state() -> Result<String, Error> {
        confirmed()
    }

    /// Asks for a yes, whose way back somebody changes.
    #[tool(effect = "read")]
    fn test_input_required_result_tampered_state() -> Result<String, Error> {
        confirmed()
    }

    /// Asks twice.
    #[tool(effect = "read")]
    fn test_input_required_result_multi_round() -> Result<String, Error> {
        let name = ask::text("Step 1: What is your name?", "nobody")?;
        let color = ask::text("Step 2: What is your favorite color?", "none")?;
        Ok(format!("{name} likes {color}"))
    }

    /// Logs a line.
    #[tool(effect = "read")]
    fn test_logging_tool() -> String {
        log::info("a line for the operator");
        "Done.".to_owned()
    }

    /// Asks while the client reads a stream.
    #[tool(effect = "read")]
    fn test_streaming_elicitation() -> Result<String, Error> {
        confirmed()
    }

    /// Person to reach.
    #[args]
    #[schemars(transform = whole_schema)]
    struct Contact {
        name: Option<String>,
        address: Option<BTreeMap<String, String>>,
        #[serde(rename = "contactMethod")]
        contact_method: Option<String>,
        phone: Option<String>,
        email: Option<String>,
    }

    /// Puts the schema in the place of the derived one that the suite compares word by word.
    fn whole_schema(schema: &mut rind_sdk::schemars::Schema) {
        *schema = rind_sdk::schemars::json_schema!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }},
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {
                "properties": {"contactMethod": {"const": "phone"}},
                "required": ["contactMethod"],
            },
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        });
    }

    /// Reaches nobody: its schema is what counts.
    #[tool(effect = "read")]
    fn json_schema_2020_12_tool(args: Contact) -> String {
        let place = args.address.unwrap_or_default().into_values();
        let words = [args.name, args.contact_method, args.phone, args.email];
        let words: Vec<String> = words.into_iter().flatten().chain(place).collect();
        format!("It would reach {}.", words.join(", "))
    }

    /// Place whose name is a header of the request, too.
    #[args]
    struct Place {
        /// Name of the region.
        #[schemars(extend("x-mcp-header" = "Region"))]
        region: String,
    }

    /// Names a region.
    #[tool(effect = "read")]
    fn test_custom_header(args: Place) -> String {
        args.region
    }

    /// Asks for a name.
    #[tool(effect = "read")]
    fn test_input_required_result_elicitation() -> Result<String, Error> {
        let name = ask::text("What is your name?", "nobody")?;
        Ok(format!("Hello, {name}!"))
    }
}
