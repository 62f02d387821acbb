//! Knows nothing of Rind: functions with every type that has a JSON form, and one with a resource.
#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    reason = "generated bindings, without the SDK's macros around them"
)]

wit_bindgen::generate!({
    inline: "
        package local:catalog@1.0.0;

        interface shapes {
            record point { x: s32, y: s32, label: option<string> }
            enum color { red, green }
            flags marks { a, b }
            variant shape { dot(point), line(tuple<point, point>), nothing }
            resource handle { value: func() -> u32; }

            same: func(shape: shape, color: color, marks: marks) -> tuple<shape, color, marks>;
            sum: func(numbers: list<u64>) -> u64;
            negate: func(n: s64) -> s64;
            reverse: func(data: list<u8>) -> list<u8>;
            next-letter: func(letter: char) -> char;
            maybe: func(n: option<u32>) -> option<option<string>>;
            attempt: func(works: bool) -> result<string, string>;
            outcome: func(r: result<u8, string>) -> result<u8, string>;
            half: func(n: f64) -> f64;
            make: func() -> handle;
        }

        world catalog {
            export shapes;
            export greet: func(name: string) -> string;
            export misbehave: func(how: string, text: string) -> string;
        }
    ",
});

use exports::local::catalog::shapes::{Color, Guest as Shapes, GuestHandle, Handle, Marks, Shape};

struct Catalog;

struct Seven;

impl GuestHandle for Seven {
    fn value(&self) -> u32 {
        7
    }
}

impl Shapes for Catalog {
    type Handle = Seven;

    fn same(shape: Shape, color: Color, marks: Marks) -> (Shape, Color, Marks) {
        (shape, color, marks)
    }

    fn sum(numbers: Vec<u64>) -> u64 {
        numbers.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    fn negate(n: i64) -> i64 {
        n.wrapping_neg()
    }

    fn reverse(mut data: Vec<u8>) -> Vec<u8> {
        data.reverse();
        data
    }

    fn next_letter(letter: char) -> char {
        char::from_u32(u32::from(letter) + 1).unwrap_or(letter)
    }

    fn maybe(n: Option<u32>) -> Option<Option<String>> {
        match n {
            None => None,
            Some(0) => Some(None),
            Some(n) => Some(Some(n.to_string())),
        }
    }

    fn attempt(works: bool) -> Result<String, String> {
        match works {
            true => Ok("it works".to_owned()),
            false => Err("it does not work".to_owned()),
        }
    }

    fn outcome(r: Result<u8, String>) -> Result<u8, String> {
        r
    }

    fn half(n: f64) -> f64 {
        n / 2.0
    }

    fn make() -> Handle {
        Handle::new(Seven)
    }
}

impl Guest for Catalog {
    fn greet(name: String) -> String {
        format!("Good day, {name}.")
    }

    fn misbehave(how: String, text: String) -> String {
        match how.as_str() {
            "loop" => loop {
                std::hint::black_box(());
            },
            "trap" => panic!("broken on purpose"),
            "grow" => {
                let mut kept = Vec::new();
                loop {
                    kept.push(std::hint::black_box(vec![7_u8; 1 << 20]));
                }
            }
            "variable" => format!("{:?}", std::env::var(&text)),
            "read" => format!("{:?}", std::fs::read_to_string(&text)),
            _ => text,
        }
    }
}

export!(Catalog);
