"""Makes and reads sealed values by docs/sealing-format.md alone, with the package `cryptography`.

    python3 make-vectors.py make > sealing.json    makes the vectors, the same each time
    python3 make-vectors.py open < cases.json      opens cases of the same form; exit code 1 if one does not open to its value
"""

import base64
import hashlib
import hmac
import json
import re
import struct
import sys
import unicodedata

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
TYPES = {str: 1, int: 2, float: 2, bool: 3, dict: 4, list: 5}


def seed(text, length):
    return hashlib.shake_256(text.encode()).digest(length)


def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_b64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def lower(text):
    return text.lower() if UUID.match(text) else text


def fields(values):
    return b"".join(struct.pack(">I", len(v.encode())) + v.encode() for v in values)


def derive(secret, salt, label):
    okm = HKDF(algorithm=hashes.SHA256(), length=44, salt=salt, info=label.encode()).derive(secret)
    return okm[:32], okm[32:]


def aad_of(case):
    key, context = case["key"], case["context"]
    head = [key["class"], key["keyId"], str(key["version"])]
    if context["in"] == "row":
        rest = [context["store"], context["table"], lower(context["primaryKey"]), context["column"]]
        return fields(["sealed-outbox.row.1", *head, *rest])
    rest = [
        context["eventType"],
        context["aggregateType"],
        lower(context["aggregateId"]),
        context["eventId"].lower(),
        context["pointer"],
    ]
    return fields(["sealed-outbox.event.1", *head, *rest])


def plaintext_of(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    head = bytes([TYPES[type(value)]]) + struct.pack(">I", len(text)) + text
    size = max(32, -(-len(head) // 16) * 16)
    return head + bytes(size - len(head))


def seal(case):
    salt = bytes.fromhex(case["salt"])
    key, nonce = derive(bytes.fromhex(case["key"]["secret"]), salt, "sealed-outbox.value.1")
    body = salt + AESGCM(key).encrypt(nonce, plaintext_of(case["value"]), aad_of(case))
    name = case["key"]
    return f"sealed.1.{name['class']}.{name['keyId']}.{name['version']}.{b64url(body)}"


def unseal(case):
    prefix, form, class_name, key_id, version, body = case["sealed"].split(".")
    name = case["key"]
    if (prefix, form, class_name, key_id, version) != (
        "sealed",
        "1",
        name["class"],
        name["keyId"],
        str(name["version"]),
    ):
        raise ValueError("another key")
    data = from_b64url(body)
    key, nonce = derive(bytes.fromhex(name["secret"]), data[:16], "sealed-outbox.value.1")
    plaintext = AESGCM(key).decrypt(nonce, data[16:], aad_of(case))
    (length,) = struct.unpack(">I", plaintext[1:5])
    if any(plaintext[5 + length :]) or len(plaintext) != max(32, -(-(5 + length) // 16) * 16):
        raise ValueError("padding")
    value = json.loads(plaintext[5 : 5 + length].decode())
    if TYPES[type(value)] != plaintext[0]:
        raise ValueError("type")
    return value


def wrap(case):
    salt = bytes.fromhex(case["salt"])
    key, nonce = derive(bytes.fromhex(case["branchSecret"]), salt, "sealed-outbox.key.1")
    name, context = case["key"], case["context"]
    aad = fields(
        [
            "sealed-outbox.key.1",
            context["vault"],
            name["class"],
            str(context["branchVersion"]),
            context["subject"]["kind"],
            lower(context["subject"]["id"]),
            name["keyId"],
            str(name["version"]),
        ]
    )
    return (b"\x01" + salt + AESGCM(key).encrypt(nonce, bytes.fromhex(name["secret"]), aad)).hex()


IGNORED = [
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F),
    (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
]  # fmt: skip


def is_ignored(character):
    if unicodedata.category(character) == "Cc":
        return character not in "\t\n\v\f\r"
    return any(first <= ord(character) <= last for first, last in IGNORED)


def fold(text):
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not is_ignored(c))
    text = unicodedata.normalize("NFKC", text).lower().upper().lower().replace("\u03c2", "\u03c3")
    kept = []
    after_i = False
    for c in unicodedata.normalize("NFKD", text):
        if not (after_i and c == "\u0307"):
            kept.append(c)
        after_i = c == "i" or (after_i and unicodedata.category(c).startswith("M"))
    return unicodedata.normalize("NFKC", "".join(kept))


def is_white(character):
    return character in "\t\n\v\f\r" or unicodedata.category(character) in ("Zs", "Zl", "Zp")


def normalise(normaliser, text):
    if normaliser == "email":
        return "".join(c for c in fold(text) if not is_white(c))
    if normaliser == "name":
        text = "".join("'" if c in "\u2018\u2019\u02bc\u0060\u00b4" else c for c in text)
        text = "".join("-" if unicodedata.category(c) == "Pd" else c for c in fold(text))
        return " ".join("".join(" " if is_white(c) else c for c in text).split())
    if normaliser == "tax-id":
        return "".join(c for c in fold(text) if unicodedata.category(c)[0] == "L" or unicodedata.category(c) == "Nd")
    country = normaliser.split("-")[1]
    dialled = "".join(c for c in fold(text).replace("(0)", "") if c in "0123456789+")
    digits = dialled.replace("+", "")
    if digits == "":
        return ""
    if dialled.startswith("+"):
        return "+" + digits
    if digits.startswith("00"):
        return "+" + digits[2:]
    return f"+{country}{digits.removeprefix('0')}"


def index_value(case):
    info = fields(["sealed-outbox.index.1", case["index"], case["normaliser"], str(case["normaliserVersion"])])
    key = HKDF(algorithm=hashes.SHA256(), length=32, salt=b"", info=info).derive(bytes.fromhex(case["secret"]))
    mac = hmac.new(key, normalise(case["normaliser"], case["text"]).encode(), hashlib.sha256).digest()
    return (struct.pack(">IB", case["keyVersion"], case["normaliserVersion"]) + mac[: case["bits"] // 8]).hex()


def key_of(name, class_name="contact", version=1):
    return {
        "class": class_name,
        "keyId": b64url(seed(f"id {name}", 16)),
        "version": version,
        "secret": seed(f"secret {name}", 32).hex(),
    }


EVENT = {
    "in": "event",
    "eventType": "invoice.issued",
    "aggregateType": "invoice",
    "aggregateId": "6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f",
    "eventId": "01890a5d-ac96-774b-bcce-b302099a8057",
    "pointer": "/customer/name",
}
ROW = {
    "in": "row",
    "store": "invoices",
    "table": "sample.invoice",
    "primaryKey": "6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f",
    "column": "customer_name",
}

VALUES = [
    "", " ", "123", "true", "null", "1e20", "Ada Lovelace", "exactly 20 character", "x" * 25, "x" * 26,
    "İstanbul'da Çağrı Şahin, ığüşöç", "😀👩‍👩‍👧‍👦", "tab\t\"quote\" \\ and \u0001 and \u2028",
    0, 1, -1, 9007199254740991, -9007199254740991, 1.5, -0.25, True, False,
    {}, [], [1, "two", None, False, {"deep": [[]]}], {"__proto__": {"a": 1}, "constructor": 2, "a/b": "~", "": None},
]  # fmt: skip


TEXTS = {
    "email": ["ada@example.com", " Ada@Example.COM ", "ADA@EXAMPLE.COM", "\uff21da@example.com", "\u0130NFO@EXAMPLE.COM", "\u0131nfo@example.com",
              "I\u0307nfo@example.com", "A\u200bda @ example.com", "m\u00fcller@stra\u00dfe.example", "MU\u0308LLER@STRASSE.EXAMPLE", ""],
    "name": ["\u0130brahim I\u015f\u0131k", "IBRAHIM I\u015eIK", "ibrahi\u0307m  is\u0327ik", "\u00c7a\u011fr\u0131 \u015eahin", "C\u0327AG\u0306RI S\u0327AH\u0130N",
             "Gro\u00df", "GROSS", "GRO\u1e9e", "J\u00fcrgen M\u00fcller-L\u00fcdenscheidt", "JU\u0308RGEN MU\u0308LLER\u2013LU\u0308DENSCHEIDT",
             "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", "\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3", "\u03c3\u03b9\u0301\u03c3\u03c5\u03c6\u03bf\u03c3", "O\u2019Brien", "o'brien",
             "\ufb01nn", "Jos\u00e9\t\u00a0 Garc\u00eda\n", "\u1f88\u0390", "\u4e2d\u6587", "\U0001f600"],
    "tax-id": ["12.345-678 90", "1234567890", "\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19\uff10", "DE 136/695 976", "de136695976", "tr\u0130\u0131"],
    "phone-90": ["0532 111 22 33", "+90 (0)532 111 22 33", "0090-532-1112233", "532 111 2233", "\uff0b\uff19\uff10532 1112233", "+49 30 1234"],
}  # fmt: skip


def make():
    cases = []

    def add(comment, value, key, context):
        case = {
            "comment": comment,
            "key": key,
            "context": context,
            "salt": seed(f"salt {len(cases)}", 16).hex(),
            "value": value,
        }
        case["aad"] = aad_of(case).hex()
        case["plaintext"] = plaintext_of(value).hex()
        case["sealed"] = seal(case)
        cases.append(case)

    for value in VALUES:
        add("a value in an event", value, key_of("one"), EVENT)
    for value in VALUES[:8]:
        add("a value in a row", value, key_of("two", "tax-record", 12), ROW)
    add("the longest class and version", "x", key_of("three", "abcdefghijklmnop", 2147483647), EVENT)
    add("UUIDs in upper case", "x", key_of("one"), {**EVENT, "eventId": EVENT["eventId"].upper(), "aggregateId": EVENT["aggregateId"].upper()})
    add("a primary key in upper case", "x", key_of("one"), {**ROW, "primaryKey": ROW["primaryKey"].upper()})
    add("an aggregate id that is no UUID stays as it is", "x", key_of("one"), {**EVENT, "aggregateId": "RE-2027/Ä"})
    add("a pointer with escapes", "x", key_of("one"), {**EVENT, "pointer": "/a~1b/~0/0/ı"})
    add("the pointer of the whole data", "x", key_of("one"), {**EVENT, "pointer": ""})

    wrapped = []
    for number, subject in enumerate(["8d3f0a52-6c1e-4b7a-9a53-2f60c1b7e111", "8D3F0A52-6C1E-4B7A-9A53-2F60C1B7E111", "K-17"]):
        case = {
            "branchSecret": seed("branch", 32).hex(),
            "key": key_of("one"),
            "context": {"vault": "invoices", "branchVersion": 3, "subject": {"kind": "customer", "id": subject}},
            "salt": seed(f"wrap {number}", 16).hex(),
        }
        case["wrapped"] = wrap(case)
        wrapped.append(case)

    indexes = []
    for normaliser, texts in TEXTS.items():
        for number, text in enumerate(texts):
            case = {
                "index": f"customer-{normaliser}",
                "secret": seed(f"index {normaliser}", 32).hex(),
                "keyVersion": [1, 2, 2147483647][number % 3],
                "normaliser": normaliser,
                "normaliserVersion": 1,
                "bits": [256, 16, 8, 128][number % 4],
                "text": text,
                "normalised": normalise(normaliser, text) or None,
            }
            case["value"] = index_value(case) if case["normalised"] else None
            indexes.append(case)
    return {"format": "docs/sealing-format.md", "values": cases, "wrapped": wrapped, "indexes": indexes}


def open_all(document):
    wrong = [
        number
        for number, case in enumerate(document["values"])
        if (unseal(case), type(unseal(case))) != (case["value"], type(case["value"]))
    ]
    wrong += [f"wrapped {number}" for number, case in enumerate(document["wrapped"]) if wrap(case) != case["wrapped"]]
    for number, case in enumerate(document.get("indexes", [])):
        if (index_value(case) if normalise(case["normaliser"], case["text"]) else None) != case["value"]:
            wrong.append(f"index {number}")
    for number in wrong:
        print(f"case {number} does not open to its value", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["make"]:
        json.dump(make(), sys.stdout, ensure_ascii=True, indent=1)
        sys.stdout.write("\n")
    elif sys.argv[1:] == ["open"]:
        sys.exit(open_all(json.load(sys.stdin)))
    else:
        sys.exit(__doc__)
