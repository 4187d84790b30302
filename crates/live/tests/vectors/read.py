#!/usr/bin/env python3
"""Computes every byte of handshakes.json anew.

An implementation of the protocol that shares nothing with the one in crates/live/src/secure: written from its documents, with
the primitives of Python's `cryptography` and `hashlib`. Names are those of the Noise Protocol Framework, revision 34.

Usage: read.py [FILE]. Ends with 0 if all is as the file says.
"""
import hashlib
import hmac
import ipaddress
import json
import pathlib
import sys

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

VERSION = 4
INITIATION, RESPONSE, COOKIE, BEHIND = 1, 2, 3, 6


def public(private):
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def dh(private, other):
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(other))


def blake2s(*parts, key=b"", size=32):
    return hashlib.blake2s(b"".join(parts), key=key, digest_size=size).digest()


def hkdf(chaining, material, outputs):
    secret = hmac.new(chaining, material, hashlib.blake2s).digest()
    out, last = [], b""
    for n in range(1, outputs + 1):
        last = hmac.new(secret, last + bytes([n]), hashlib.blake2s).digest()
        out.append(last)
    return out


def counter_nonce(counter):
    return bytes(4) + counter.to_bytes(8, "big")


def header(kind, index):
    return bytes([kind, VERSION, 0, 0]) + index


class Noise:
    """The symmetric state of one handshake."""

    def __init__(self, prologue, responder):
        self.h = self.ck = blake2s(b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s")
        self.k = None
        self.mix_hash(prologue)
        self.mix_hash(responder)

    def mix_hash(self, data):
        self.h = blake2s(self.h, data)

    def mix_key(self, material):
        self.ck, self.k = hkdf(self.ck, material, 2)

    def mix_ephemeral(self, key):
        self.mix_hash(key)
        self.mix_key(key)

    def mix_psk(self, psk):
        self.ck, mixed, self.k = hkdf(self.ck, psk, 3)
        self.mix_hash(mixed)

    def seal(self, text):
        sealed = ChaCha20Poly1305(self.k).encrypt(counter_nonce(0), text, self.h)
        self.mix_hash(sealed)
        return sealed


def macs(message, receiver, cookie=None):
    mac1 = blake2s(message, key=blake2s(b"fairspan mac1\0\0\0", receiver), size=16)
    with_mac1 = message + mac1
    return mac1, with_mac1 + (blake2s(with_mac1, key=cookie, size=16) if cookie else bytes(16))


def hello(text):
    return len(text).to_bytes(2, "big") + text


class Vector:
    def __init__(self, vector):
        self.said = vector
        for name in ("initiator", "responder"):
            end = {key: bytes.fromhex(value) for key, value in vector[name].items() if key != "address"}
            end["public"] = public(end["private"])
            setattr(self, name, end)
        self.psk = bytes.fromhex(vector["preshared_key"] or "00" * 32)
        self.stamp = bytes.fromhex(vector["stamp"])

    def get(self, name):
        return bytes.fromhex(self.said[name])

    def expect(self, name, made):
        if made != self.get(name):
            raise SystemExit(f"{name} differs:\n  file {self.said[name]}\n  made {made.hex()}")

    def initiation(self, cookie):
        a, b = self.initiator, self.responder
        noise = Noise(b"fairspan" + bytes([VERSION]) + a["index"], b["public"])
        ephemeral = public(a["ephemeral"])
        noise.mix_ephemeral(ephemeral)
        noise.mix_key(dh(a["ephemeral"], b["public"]))
        identity = noise.seal(a["public"])
        noise.mix_key(dh(a["private"], b["public"]))
        payload = bytes([VERSION, self.said["channel"], self.said["capabilities"], 0])
        sealed = noise.seal(payload + a["instance"] + self.stamp + hello(a["hello"]))
        self.mac1, message = macs(header(INITIATION, a["index"]) + ephemeral + identity + sealed, b["public"], cookie)
        self.expect("initiation", message)
        return noise

    def response(self, noise):
        a, b = self.initiator, self.responder
        ephemeral = public(b["ephemeral"])
        noise.mix_ephemeral(ephemeral)
        noise.mix_key(dh(b["ephemeral"], public(a["ephemeral"])))
        noise.mix_key(dh(b["ephemeral"], a["public"]))
        noise.mix_psk(self.psk)
        # Both ends of a vector have the same capabilities: 1 ChaCha20-Poly1305, 2 AES-256-GCM, 4 hardware for it.
        bits = self.said["capabilities"]
        aes = bits & 2 and (bits & 4 or not bits & 1)
        payload = bytes([VERSION, 1 if aes else 2, 0, 0])
        sealed = noise.seal(payload + b["index"] + b["instance"] + hello(b["hello"]))
        self.expect("response", macs(header(RESPONSE, a["index"]) + ephemeral + sealed, a["public"])[1])
        keys = hkdf(noise.ck, b"", 2)
        return [(AESGCM if aes else ChaCha20Poly1305)(key) for key in keys]

    def packets(self, from_initiator, to_initiator):
        for packet in self.said["packets"]:
            up = packet["from"] == "initiator"
            key, index = (from_initiator, self.responder["index"]) if up else (to_initiator, self.initiator["index"])
            # The first bit says that it is data, the other 31 are the counter; of the index the low half follows.
            head = (1 << 31 | packet["counter"]).to_bytes(4, "big") + index[2:]
            padding = packet["padding"]
            if padding not in (0, -(len(packet["text"]) // 2 + 1) % 16):
                raise SystemExit(f"packet {packet['counter']} from the {packet['from']} is padded to no multiple of 16")
            text = bytes.fromhex(packet["text"]) + bytes(padding) + bytes([padding << 4 | packet["flags"]])
            made = head + key.encrypt(counter_nonce(packet["counter"]), text, head)
            if made.hex() != packet["datagram"]:
                raise SystemExit(f"packet {packet['counter']} from the {packet['from']} differs")
        return len(self.said["packets"])

    def cookie(self):
        """The cookie that a responder under load gave for the initiation before, if it did."""
        if "challenged" not in self.said:
            return None
        challenged, receiver = self.get("challenged"), self.responder["public"]
        mac1, whole = macs(challenged[:-32], receiver)
        self.expect("challenged", whole)
        host, port = self.said["initiator"]["address"].rsplit(":", 1)
        address = ipaddress.ip_address(host.strip("[]")).packed + int(port).to_bytes(2, "big")
        cookie = blake2s(address, key=self.get("cookie_secret"), size=16)
        nonce = self.get("cookie_nonce")
        key = blake2s(nonce, key=blake2s(b"fairspan cookie\0", receiver))
        sealed = ChaCha20Poly1305(key).encrypt(counter_nonce(0), cookie, mac1)
        self.expect("cookie_reply", header(COOKIE, challenged[4:8]) + nonce + sealed)
        return cookie

    def behind(self):
        shared = dh(self.responder["private"], self.initiator["public"])
        nonce = self.get("behind_nonce")
        key = blake2s(nonce, key=blake2s(b"fairspan behind\0", key=shared))
        sealed = ChaCha20Poly1305(key).encrypt(counter_nonce(0), self.stamp, self.mac1)
        self.expect("behind", header(BEHIND, self.initiator["index"]) + nonce + sealed)


def main():
    file = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("handshakes.json")
    vectors = json.loads(pathlib.Path(file).read_text())
    packets = 0
    for said in vectors:
        vector = Vector(said)
        noise = vector.initiation(vector.cookie())
        packets += vector.packets(*vector.response(noise))
        vector.behind()
    if not vectors or not packets:
        raise SystemExit("the file holds nothing")
    print(f"{len(vectors)} handshakes and {packets} packets are the same in every byte")


if __name__ == "__main__":
    main()
