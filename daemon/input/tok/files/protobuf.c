/* The wire format: a key (number and kind), then a varint, fixed bits, or a length and bytes. */
#include "input/tok/files/protobuf.h"

enum kind { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

struct tok_message tok_message_of(const char *bytes, size_t n)
{
    const unsigned char *p = (const unsigned char *)bytes;

    return (struct tok_message){p, p + n, false};
}

static bool varint(struct tok_message *m, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && m->p < m->end; shift += 7) {
        const unsigned char byte = *m->p++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool fixed(struct tok_message *m, unsigned n, uint64_t *out)
{
    *out = 0;
    if ((size_t)(m->end - m->p) < n)
        return false;
    for (unsigned i = 0; i < n; i++)
        *out |= (uint64_t)m->p[i] << 8 * i;
    m->p += n;
    return true;
}

static bool bytes(struct tok_message *m, struct tok_field *field)
{
    uint64_t n = 0;

    if (!varint(m, &n) || n > (uint64_t)(m->end - m->p))
        return false;
    field->bytes = (const char *)m->p;
    field->n = (size_t)n;
    m->p += n;
    return true;
}

bool tok_message_next(struct tok_message *m, struct tok_field *field)
{
    uint64_t key = 0;
    bool is_fine = false;

    *field = (struct tok_field){0};
    if (m->p == m->end || m->is_broken)
        return false;
    if (varint(m, &key) && key >> 3 <= UINT32_MAX) {
        field->number = (uint32_t)(key >> 3);
        is_fine = (key & 7) == VARINT    ? varint(m, &field->value)
                  : (key & 7) == FIXED64 ? fixed(m, 8, &field->value)
                  : (key & 7) == FIXED32 ? fixed(m, 4, &field->value)
                  : (key & 7) == BYTES   ? bytes(m, field)
                                         : false;
    }
    m->is_broken = !is_fine || field->number == 0;
    return !m->is_broken;
}
