//! GF(256): octets that are added by XOR and multiplied as polynomials modulo x^8 + x^4 + x^3 + x^2 + 1.
//!
//! Source: RFC 5510, 8.1 (the field, and the tables of logarithms). What is multiplied by one factor throughout, a packet, takes two
//! tables of 16 products: of an octet's lower half and of its upper.
//!
//! Cost: two look-ups an octet, or an XOR for factor 1. Invariant: [`product`] is commutative, and [`quotient`] undoes it.

/// The modulus without its x^8.
const MODULUS: u8 = 0x1d;

/// The powers of x, twice, and whose power an octet is.
const POWERS: [u8; 510] = powers();
const LOGARITHMS: [u8; 256] = logarithms();

const fn powers() -> [u8; 510] {
    let mut powers = [0; 510];
    let (mut power, mut exponent) = (1_u8, 0);
    while exponent < 510 {
        powers[exponent] = power;
        power = (power << 1) ^ (if power & 0x80 != 0 { MODULUS } else { 0 });
        exponent += 1;
    }
    powers
}

const fn logarithms() -> [u8; 256] {
    let mut logarithms = [0; 256];
    let mut exponent = 0;
    while exponent < 255 {
        logarithms[POWERS[exponent] as usize] = exponent as u8;
        exponent += 1;
    }
    logarithms
}

#[inline]
fn logarithm(octet: u8) -> usize {
    LOGARITHMS[usize::from(octet)].into()
}

/// a b.
#[inline]
pub(super) fn product(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { POWERS[logarithm(a) + logarithm(b)] }
}

/// a / b; zero where b is.
#[inline]
pub(super) fn quotient(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { POWERS[255 + logarithm(a) - logarithm(b)] }
}

/// The products of a factor with the lower and upper halves of octets.
struct Products([[u8; 16]; 2]);

impl Products {
    fn of(factor: u8) -> Products {
        let half = |shift: u32| core::array::from_fn(|bits| product(factor, (bits as u8) << shift));
        Products([half(0), half(4)])
    }

    #[inline]
    fn with(&self, octet: u8) -> u8 {
        self.0[0][usize::from(octet & 15)] ^ self.0[1][usize::from(octet >> 4)]
    }
}

/// Adds `factor` times `octets` to the beginning of `sum`.
pub(super) fn add_product(sum: &mut [u8], octets: &[u8], factor: u8) {
    let pairs = sum.iter_mut().zip(octets);
    match factor {
        0 => {}
        1 => pairs.for_each(|(sum, octet)| *sum ^= octet),
        _ => {
            let products = Products::of(factor);
            pairs.for_each(|(sum, octet)| *sum ^= products.with(*octet));
        }
    }
}

/// Multiplies octets by `factor`.
pub(super) fn scale(octets: &mut [u8], factor: u8) {
    if factor != 1 {
        let products = Products::of(factor);
        octets.iter_mut().for_each(|octet| *octet = products.with(*octet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shift and add.
    fn model(a: u8, b: u8) -> u8 {
        let (mut sum, mut shifted) = (0, a);
        for bit in 0..8 {
            if b >> bit & 1 == 1 {
                sum ^= shifted;
            }
            shifted = (shifted << 1) ^ if shifted & 0x80 != 0 { MODULUS } else { 0 };
        }
        sum
    }

    #[test]
    fn every_product_is_that_of_shifting_and_adding_and_every_quotient_undoes_it() {
        for a in 0..=255 {
            for b in 0..=255 {
                let c = product(a, b);
                assert_eq!(c, model(a, b), "{a} {b}");
                assert_eq!(Products::of(a).with(b), c, "{a} {b}");
                assert_eq!(quotient(c, b), if b == 0 { 0 } else { a }, "{a} {b}");
            }
        }
    }
}
