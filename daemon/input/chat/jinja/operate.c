/* What operators make of two values. */
#include <string.h>

#include "input/chat/jinja/tree.h"

static enum cs_status add(struct jn_run *run, const json_t *a, const json_t *b, json_t **out)
{
    struct cs_buf text = {0};

    if (json_is_string(a) && json_is_string(b)) {
        cs_buf_add(&text, json_string_value(a), json_string_length(a));
        cs_buf_add(&text, json_string_value(b), json_string_length(b));
        *out = json_stringn(cs_buf_str(&text), text.len);
        cs_buf_free(&text);
        return *out != NULL ? CS_OK : cs_fail(run->err, CS_NO_MEMORY, "no memory");
    }
    if (json_is_array(a) && json_is_array(b)) {
        *out = json_copy((json_t *)(uintptr_t)a);
        json_array_extend(*out, (json_t *)(uintptr_t)b);
        return CS_OK;
    }
    return cs_fail(run->err, CS_UNSUPPORTED, "it adds what cannot be added");
}

static enum cs_status join(struct jn_run *run, const json_t *a, const json_t *b, json_t **out)
{
    struct cs_buf text = {0};
    enum cs_status status = jn_print(a, &text, run->err);

    if (status == CS_OK)
        status = jn_print(b, &text, run->err);
    if (status == CS_OK)
        *out = json_stringn(cs_buf_str(&text), text.len);
    cs_buf_free(&text);
    return status;
}

static enum cs_status whole(struct jn_run *run, const char *sign, json_int_t a, json_int_t b,
                            json_t **out)
{
    const json_int_t most = INT32_MAX;

    if (a > most || a < -most || b > most || b < -most)
        return cs_fail(run->err, CS_UNSUPPORTED, "it calculates with large numbers");
    if (sign[0] == '+' || sign[0] == '-')
        *out = json_integer(sign[0] == '+' ? a + b : a - b);
    else if (strcmp(sign, "*") == 0)
        *out = json_integer(a * b);
    else if (b > 0 && sign[0] == '%')
        *out = json_integer((a % b + b) % b);
    else if (b > 0 && strcmp(sign, "//") == 0)
        *out = json_integer((a - (a % b + b) % b) / b);
    else
        return cs_fail(run->err, CS_UNSUPPORTED, "it divides by what is no positive number");
    return CS_OK;
}

static enum cs_status order(struct jn_run *run, const char *sign, const json_t *a, const json_t *b,
                            json_t **out)
{
    double x = json_number_value(a), y = json_number_value(b);
    bool has_equal = sign[1] == '=';

    if (!json_is_number(a) || !json_is_number(b))
        return cs_fail(run->err, CS_UNSUPPORTED, "it orders what are no numbers");
    *out = json_boolean(sign[0] == '<' ? x < y || (has_equal && x == y)
                                       : x > y || (has_equal && x == y));
    return CS_OK;
}

enum cs_status jn_operate(struct jn_run *run, const char *sign, const json_t *a, const json_t *b,
                          json_t **out)
{
    if (strcmp(sign, "==") == 0 || strcmp(sign, "!=") == 0) {
        *out = json_boolean(jn_is_equal(a, b) == (sign[0] == '='));
        return CS_OK;
    }
    if (strcmp(sign, "in") == 0) {
        if (!json_is_string(b) && !json_is_object(b) && !json_is_array(b))
            return cs_fail(run->err, CS_INVALID, "it looks into what holds nothing");
        *out = json_boolean(jn_contains(b, a));
        return CS_OK;
    }
    if (sign[0] == '~')
        return join(run, a, b, out);
    if (sign[0] == '<' || sign[0] == '>')
        return order(run, sign, a, b, out);
    if (json_is_integer(a) && json_is_integer(b))
        return whole(run, sign, json_integer_value(a), json_integer_value(b), out);
    if (sign[0] == '+')
        return add(run, a, b, out);
    return cs_fail(run->err, CS_UNSUPPORTED, "it uses %s on what are no whole numbers", sign);
}
