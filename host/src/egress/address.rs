//! Classifies addresses: public, private, or never allowed for plugins.
//!
//! Owns the tables, taken from the registries of special addresses and from what clouds document of their metadata
//! services. An address that carries another one in it (mapped, translated, tunnelled) is what the inner one is.
//! Start from [`kind`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Class of an address by who may connect to it; later classes allow less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Part of the public network.
    Public,
    /// Loopback, private, link-local, documentation: only where it is listed as private.
    Private,
    /// Metadata of clouds, multicast, reserved: whatever is listed.
    Never,
}

/// Class of an address with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressKind {
    /// Class of an address by who may connect to it; later classes allow less.
    pub class: Class,
    /// Name that follows "is" in messages.
    pub name: &'static str,
}

const PUBLIC: AddressKind = AddressKind {
    class: Class::Public,
    name: "a public address",
};

const METADATA: AddressKind = never("an address of cloud metadata");

const fn private(name: &'static str) -> AddressKind {
    AddressKind {
        class: Class::Private,
        name,
    }
}

const fn never(name: &'static str) -> AddressKind {
    AddressKind {
        class: Class::Never,
        name,
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// Networks of IPv4 with the bits of their prefix. The first that holds an address says what it is.
const V4: &[(u32, u32, AddressKind)] = &[
    // Most clouds; the containers and pods of one of them have 170.2 and 170.23.
    (v4(169, 254, 169, 0), 24, METADATA),
    (v4(169, 254, 170, 0), 24, METADATA),
    (v4(169, 254, 42, 42), 32, METADATA),
    (v4(169, 254, 0, 23), 32, METADATA),
    (v4(169, 254, 10, 10), 32, METADATA),
    (v4(100, 100, 100, 200), 32, METADATA),
    (v4(100, 96, 0, 96), 32, METADATA),
    (v4(192, 0, 0, 192), 32, METADATA),
    (v4(168, 63, 129, 16), 32, METADATA),
    (v4(0, 0, 0, 0), 8, never("an unspecified address")),
    (v4(224, 0, 0, 0), 4, never("a multicast address")),
    (v4(255, 255, 255, 255), 32, never("the broadcast address")),
    (v4(240, 0, 0, 0), 4, never("a reserved address")),
    (v4(127, 0, 0, 0), 8, private("a loopback address")),
    (v4(10, 0, 0, 0), 8, private("a private address")),
    (v4(172, 16, 0, 0), 12, private("a private address")),
    (v4(192, 168, 0, 0), 16, private("a private address")),
    (v4(169, 254, 0, 0), 16, private("a link-local address")),
    (v4(100, 64, 0, 0), 10, private("a carrier's own address")),
    (v4(192, 0, 0, 0), 24, private("an address of protocols")),
    (v4(192, 0, 2, 0), 24, private("a documentation address")),
    (v4(198, 51, 100, 0), 24, private("a documentation address")),
    (v4(203, 0, 113, 0), 24, private("a documentation address")),
    (v4(198, 18, 0, 0), 15, private("a benchmark address")),
    (v4(192, 88, 99, 0), 24, private("a relay's address")),
    (v4(0, 0, 0, 0), 0, PUBLIC),
];

const fn v6(segments: [u16; 8]) -> u128 {
    let [a, b, c, d, e, f, g, h] = segments;
    Ipv6Addr::new(a, b, c, d, e, f, g, h).to_bits()
}

/// Networks of IPv6, as [`V4`]. What is in none of them is not in use.
const V6: &[(u128, u32, AddressKind)] = &[
    (v6([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0]), 32, METADATA),
    (v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]), 128, METADATA),
    (v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42]), 128, METADATA),
    (v6([0; 8]), 128, never("an unspecified address")),
    (
        v6([0, 0, 0, 0, 0, 0, 0, 1]),
        128,
        private("a loopback address"),
    ),
    (v6([0; 8]), 96, private("an obsolete address")),
    (
        v6([0, 0, 0, 0, 0xffff, 0, 0, 0]),
        96,
        private("a translated address"),
    ),
    (
        v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0]),
        48,
        private("a translated address"),
    ),
    (
        v6([0xfc00, 0, 0, 0, 0, 0, 0, 0]),
        7,
        private("a private address"),
    ),
    (
        v6([0xfe80, 0, 0, 0, 0, 0, 0, 0]),
        10,
        private("a link-local address"),
    ),
    (
        v6([0xfec0, 0, 0, 0, 0, 0, 0, 0]),
        10,
        private("a site-local address"),
    ),
    (
        v6([0xff00, 0, 0, 0, 0, 0, 0, 0]),
        8,
        never("a multicast address"),
    ),
    (
        v6([0x2001, 0, 0, 0, 0, 0, 0, 0]),
        23,
        private("an address of protocols"),
    ),
    (
        v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0]),
        32,
        private("a documentation address"),
    ),
    (
        v6([0x3fff, 0, 0, 0, 0, 0, 0, 0]),
        20,
        private("a documentation address"),
    ),
    (v6([0x2000, 0, 0, 0, 0, 0, 0, 0]), 3, PUBLIC),
];

/// Class of an address with its name.
#[must_use]
pub fn kind(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => kind_v6(address),
    }
}

fn kind_v4(address: Ipv4Addr) -> AddressKind {
    let bits = address.to_bits();
    let holds = |network: u32, prefix: u32| (bits ^ network).leading_zeros() >= prefix;
    let found = V4
        .iter()
        .find(|(network, prefix, _)| holds(*network, *prefix));
    found.map_or(PUBLIC, |(.., kind)| *kind)
}

fn kind_v6(address: Ipv6Addr) -> AddressKind {
    let low = |a: u16, b: u16| Ipv4Addr::from_bits(u32::from(a) << 16 | u32::from(b));
    let segments = address.segments();
    let inner = match segments {
        // Mapped, NAT64 and 6to4: packets go to the inner address, so it alone counts.
        [0, 0, 0, 0, 0, 0xffff, g, h] | [0x64, 0xff9b, 0, 0, 0, 0, g, h] => {
            return kind_v4(low(g, h));
        }
        [0x2002, b, c, ..] => return kind_v4(low(b, c)),
        // Teredo holds the client's address with every bit turned.
        [0x2001, 0, .., g, h] => Some(low(!g, !h)),
        // Loopback is not an IPv4 address in IPv6.
        [0, 0, 0, 0, 0, 0, 0, 1] => None,
        // Compatible, translated, local NAT64, ISATAP.
        [0, 0, 0, 0, 0 | 0xffff, 0, g, h] | [0x64, 0xff9b, 1, .., g, h] => Some(low(g, h)),
        [_, _, _, _, 0 | 0x100 | 0x200 | 0x300, 0x5efe, g, h] => Some(low(g, h)),
        // Some clouds keep their IPv4 address of metadata within an IPv6 one of their own.
        [.., 0xa9fe, 0xa9fe] => Some(low(0xa9fe, 0xa9fe)),
        _ => None,
    };
    let bits = address.to_bits();
    let holds = |network: u128, prefix: u32| (bits ^ network).leading_zeros() >= prefix;
    let found = V6
        .iter()
        .find(|(network, prefix, _)| holds(*network, *prefix));
    let own = found.map_or(never("a reserved address"), |(.., kind)| *kind);
    match inner.map(kind_v4) {
        Some(inner) if inner.class > own.class => inner,
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(class: Class, addresses: &[&str]) {
        for address in addresses {
            let kind = kind(address.parse().unwrap());
            assert_eq!(kind.class, class, "{address}: {}", kind.name);
        }
    }

    #[test]
    fn public_addresses_are_public() {
        let addresses = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001:80b::200e",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ];
        check(Class::Public, &addresses);
    }

    #[test]
    fn addresses_of_somebodys_own_network_are_private() {
        let addresses = [
            "127.0.0.1",
            "127.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.168.0.0",
            "192.168.255.255",
            "169.254.0.1",
            "100.64.0.0",
            "100.127.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "192.88.99.1",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.1.2.3",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:0:7f00:1",
            "64:ff9b::7f00:1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "2002:7f00:1::",
            "2002:0a00:0001::1",
            "2001:0:1:2:3:4:f5ff:fffe",
            "2001:2::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fe80::5efe:10.0.0.1",
            "2606:4700::5efe:10.0.0.1",
        ];
        check(Class::Private, &addresses);
    }

    #[test]
    fn metadata_multicast_and_reserved_addresses_are_nobodys() {
        let addresses = [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "::ffff:0:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::169.254.169.254",
            "2002:a9fe:a9fe::1",
            "2001:0:1:2:3:4:5601:5601",
            "fe80::5efe:169.254.169.254",
            "fe80::a9fe:a9fe",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "::ffff:0.0.0.0",
            "ff02::1",
            "100::1",
            "4000::1",
            "f000::1",
        ];
        check(Class::Never, &addresses);
    }
}
