"""Reads event files of TensorBoard with nothing but the standard library: tfevents.py FILE prints a line
"step wall_time tag value" of every value. Framing, checksums and messages are checked."""
import math
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert masked(data[at : at + 8]) == check, "checksum of a length"
        record = data[at + 12 : at + 12 + length]
        assert len(record) == length, "a record is cut"
        assert masked(record) == struct.unpack_from("<I", data, at + 12 + length)[0], "checksum of a record"
        yield record
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = struct.unpack_from({1: "<d", 5: "<f"}[kind], data, at)[0], at + size
        yield key >> 3, value


def values(path):
    """(step, wall_time, tag, value); the first record is the version"""
    events = [dict(fields(record)) for record in records(open(path, "rb").read())]
    assert events and events[0][3] == b"brain.Event:2", "the first record is no version"
    for event in events[1:]:
        for number, value in fields(event.get(5, b"")):
            assert number == 1
            one = dict(fields(value))
            yield event.get(2, 0), event[1], one[1].decode(), one[2]


if __name__ == "__main__":
    for path in sys.argv[1:]:
        for step, wall, tag, value in values(path):
            print(step, f"{wall:.9f}", tag, "nan" if math.isnan(value) else repr(value))
