/* The gated delta rule over the rows of a slot, head by head and chunk by chunk. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/delta_chunk.h"

/* Chunks of one document; a chunk never crosses into the next one. */
static int32_t chunks_of(const struct cs_mask_plan *mask, int32_t segment)
{
    const int32_t rows = mask->segment[segment + 1] - mask->segment[segment];
    return (rows + CS_DELTA_CHUNK - 1) / CS_DELTA_CHUNK;
}

static int32_t most_chunks(const struct cs_mask_plan *mask)
{
    int32_t most = 1;
    for (int32_t s = 0; s < mask->n_segments; s++)
        most = chunks_of(mask, s) > most ? chunks_of(mask, s) : most;
    return most;
}

static size_t state_floats(const struct cs_delta_shape *shape)
{
    return (size_t)shape->key_dim * (size_t)shape->value_dim;
}

size_t cs_cpu_delta_workspace(const struct cs_delta_shape *shape, const struct cs_mask_plan *mask)
{
    const size_t states = ((size_t)most_chunks(mask) + 1) * state_floats(shape) * sizeof(float);
    return cs_carve_bound(states) +
           cs_delta_chunk_bytes(CS_DELTA_CHUNK, shape->key_dim, shape->value_dim);
}

/* What a call works on, for one head. */
struct run {
    const struct cs_delta_shape *s;
    const struct cs_delta_in *in;
    int32_t head, key_head;
    struct cs_delta_chunk chunk;
};

static float norm_of(const struct cs_delta_shape *s, const float *x)
{
    float sum = 0.0f;
    for (int32_t j = 0; j < s->key_dim; j++)
        sum += x[j] * x[j];
    return 1.0f / sqrtf(sum + s->eps);
}

/* y (n, key_dim) = factor x / |x| */
static void read_keys(const struct cs_delta_shape *s, const float *x, int64_t stride, int32_t n,
                      float factor, float *y)
{
    for (int32_t i = 0; i < n; i++) {
        const float by = factor * norm_of(s, x + i * stride);
        for (int32_t j = 0; j < s->key_dim; j++)
            y[i * s->key_dim + j] = by * x[i * stride + j];
    }
}

static float query_scale(const struct cs_delta_shape *s)
{
    return 1.0f / sqrtf((float)s->key_dim);
}

static int64_t keys_at(const struct run *r, int64_t row)
{
    return row * r->s->q_stride + (int64_t)r->key_head * r->s->key_dim;
}

static int64_t values_at(const struct run *r, int64_t row, int64_t stride)
{
    return row * stride + (int64_t)r->head * r->s->value_dim;
}

static void read_chunk(struct run *r, int32_t row, int32_t n)
{
    const struct cs_delta_shape *s = r->s;
    struct cs_delta_chunk *c = &r->chunk;
    c->n = n;
    read_keys(s, (const float *)r->in->q + keys_at(r, row), s->q_stride, n, query_scale(s), c->q);
    read_keys(s, (const float *)r->in->k + keys_at(r, row), s->q_stride, n, 1.0f, c->k);
    for (int32_t i = 0; i < n; i++) {
        memcpy(c->v + i * s->value_dim,
               (const float *)r->in->v + values_at(r, row + i, s->v_stride),
               (size_t)s->value_dim * sizeof(float));
        c->g[i] = r->in->g[(int64_t)(row + i) * s->heads + r->head];
        c->beta[i] = r->in->beta[(int64_t)(row + i) * s->heads + r->head];
    }
    cs_delta_chunk_begin(c);
}

static int32_t rows_left(int32_t row, int32_t end)
{
    return end - row < CS_DELTA_CHUNK ? end - row : CS_DELTA_CHUNK;
}

/* what enters or leaves, NULL: zeros */
static void begin_state(const struct cs_delta_shape *s, const float *from, float *state)
{
    if (from != NULL)
        memcpy(state, from, state_floats(s) * sizeof *state);
    else
        memset(state, 0, state_floats(s) * sizeof *state);
}

/* states (chunks + 1): before every chunk, and after the last. o NULL: the states alone. */
static void scan(struct run *r, int32_t begin, int32_t end, const float *entering, float *states,
                 void *o)
{
    const size_t state = state_floats(r->s);
    float out[CS_DELTA_CHUNK * CS_DELTA_MAX_DIM];
    begin_state(r->s, entering, states);
    for (int32_t row = begin; row < end; row += CS_DELTA_CHUNK, states += state) {
        const int32_t n = rows_left(row, end);
        read_chunk(r, row, n);
        memcpy(states + state, states, state * sizeof *states);
        cs_delta_chunk_forward(&r->chunk, states + state, o != NULL ? out : NULL);
        for (int32_t i = 0; o != NULL && i < n; i++)
            memcpy((float *)o + values_at(r, row + i, r->s->o_stride), out + i * r->s->value_dim,
                   (size_t)r->s->value_dim * sizeof(float));
    }
}

static struct cs_carve begin(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                             const struct cs_mask_plan *mask, struct run *r, float **states)
{
    CS_ASSERT(shape->key_dim <= CS_DELTA_MAX_DIM && shape->value_dim <= CS_DELTA_MAX_DIM);
    CS_ASSERT(shape->key_heads > 0 && shape->heads % shape->key_heads == 0);
    struct cs_carve carve = cs_carve_begin(ctx);
    *states = cs_carve_take(&carve,
                            ((size_t)most_chunks(mask) + 1) * state_floats(shape) * sizeof(float));
    cs_delta_chunk_place(&carve, CS_DELTA_CHUNK, shape->key_dim, shape->value_dim, &r->chunk);
    r->s = shape;
    return carve;
}

static void take_head(struct run *r, int32_t head)
{
    r->head = head;
    r->key_head = head / (r->s->heads / r->s->key_heads);
}

/* the head's of states, NULL: zeros */
static const float *of_head(const struct run *r, const float *states)
{
    return states != NULL ? states + (size_t)r->head * state_floats(r->s) : NULL;
}

void cs_cpu_delta(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                  const struct cs_mask_plan *mask, const struct cs_delta_in *in, void *o)
{
    cs_cpu_delta_part(ctx, shape, mask, in, NULL, o);
}

void cs_cpu_delta_part(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const float *state, void *o)
{
    struct run r = {.in = in};
    float *states = NULL;
    if (mask->n_tokens == 0)
        return;
    begin(ctx, shape, mask, &r, &states);
    for (int32_t h = 0; h < shape->heads; h++) {
        take_head(&r, h);
        for (int32_t s = 0; s < mask->n_segments; s++)
            scan(&r, mask->segment[s], mask->segment[s + 1], s == 0 ? of_head(&r, state) : NULL,
                 states, o);
    }
}

/* Through factor x / |x|: dx of the head's share is added to what other heads of the group left. */
static void write_keys(const struct cs_delta_shape *s, const float *x, int64_t stride, int32_t n,
                       float factor, const float *dy, bool is_first, float *dx)
{
    for (int32_t i = 0; i < n; i++) {
        const float *from = x + i * stride, *d = dy + i * s->key_dim;
        float *to = dx + i * stride, along = 0.0f;
        const float by = norm_of(s, from);
        for (int32_t j = 0; j < s->key_dim; j++)
            along += d[j] * from[j];
        for (int32_t j = 0; j < s->key_dim; j++) {
            const float one = factor * by * (d[j] - by * by * along * from[j]);
            to[j] = is_first ? one : to[j] + one;
        }
    }
}

static void write_chunk(struct run *r, int32_t row, const struct cs_delta_out *out)
{
    const struct cs_delta_shape *s = r->s;
    const struct cs_delta_chunk *c = &r->chunk;
    const bool is_first = r->head % (s->heads / s->key_heads) == 0;
    write_keys(s, (const float *)r->in->q + keys_at(r, row), s->q_stride, c->n, query_scale(s),
               c->dq, is_first, (float *)out->dq + keys_at(r, row));
    write_keys(s, (const float *)r->in->k + keys_at(r, row), s->q_stride, c->n, 1.0f, c->dk_out,
               is_first, (float *)out->dk + keys_at(r, row));
    for (int32_t i = 0; i < c->n; i++) {
        memcpy((float *)out->dv + values_at(r, row + i, s->v_stride), c->dv_out + i * s->value_dim,
               (size_t)s->value_dim * sizeof(float));
        out->dg[(int64_t)(row + i) * s->heads + r->head] = c->dg[i];
        out->dbeta[(int64_t)(row + i) * s->heads + r->head] = c->dbeta[i];
    }
}

static int32_t chunks_between(int32_t begin, int32_t end)
{
    return (end - begin + CS_DELTA_CHUNK - 1) / CS_DELTA_CHUNK;
}

static void read_d_o(struct run *r, int32_t row, const void *d_o)
{
    const size_t width = (size_t)r->s->value_dim;
    for (int32_t i = 0; i < r->chunk.n; i++)
        memcpy(r->chunk.d_o + (size_t)i * width,
               (const float *)d_o + values_at(r, row + i, r->s->o_stride), width * sizeof(float));
}

/* The chunks of a document from its end. The gradient of the state goes where the state after the
 * last chunk was: nobody reads that one. */
static void scan_back(struct run *r, int32_t begin, int32_t end, const float *leaving,
                      float *states, const void *d_o, const struct cs_delta_out *out)
{
    const struct cs_delta_shape *s = r->s;
    const size_t state = state_floats(s);
    const int32_t chunks = chunks_between(begin, end);
    float *d_state = states + (size_t)chunks * state;
    begin_state(s, leaving, d_state);
    for (int32_t j = chunks - 1; j >= 0; j--) {
        const int32_t row = begin + j * CS_DELTA_CHUNK;
        read_chunk(r, row, rows_left(row, end));
        read_d_o(r, row, d_o);
        cs_delta_chunk_backward(&r->chunk, states + (size_t)j * state, d_state);
        write_chunk(r, row, out);
    }
}

void cs_cpu_delta_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const void *d_o, const struct cs_delta_out *out)
{
    cs_cpu_delta_part_grad(ctx, shape, mask, in, NULL, NULL, d_o, out);
}

void cs_cpu_delta_part_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                            const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                            const float *state, const float *d_state, const void *d_o,
                            const struct cs_delta_out *out)
{
    struct run r = {.in = in};
    const int32_t last = mask->n_segments - 1;
    float *states = NULL;
    if (mask->n_tokens == 0)
        return;
    begin(ctx, shape, mask, &r, &states);
    for (int32_t h = 0; h < shape->heads; h++) {
        take_head(&r, h);
        for (int32_t s = 0; s <= last; s++) {
            const int32_t row = mask->segment[s], end = mask->segment[s + 1];
            scan(&r, row, end, s == 0 ? of_head(&r, state) : NULL, states, NULL);
            scan_back(&r, row, end, s == last ? of_head(&r, d_state) : NULL, states, d_o, out);
        }
    }
}

/* map and state of rows begin .. end, NULL: not wanted */
static void pass_on(struct run *r, int32_t begin, int32_t end, float *map, float *state)
{
    const int32_t dk = r->s->key_dim;
    for (int32_t i = 0; map != NULL && i < dk * dk; i++)
        map[i] = i % (dk + 1) == 0 ? 1.0f : 0.0f;
    if (state != NULL)
        begin_state(r->s, NULL, state);
    for (int32_t row = begin; row < end; row += CS_DELTA_CHUNK) {
        read_chunk(r, row, rows_left(row, end));
        if (map != NULL)
            cs_delta_chunk_map(&r->chunk, map);
        if (state != NULL)
            cs_delta_chunk_forward(&r->chunk, state, NULL);
    }
}

static void ask_back(struct run *r, int32_t begin, int32_t end, const void *d_o, float *d_state)
{
    begin_state(r->s, NULL, d_state);
    for (int32_t j = chunks_between(begin, end) - 1; j >= 0; j--) {
        const int32_t row = begin + j * CS_DELTA_CHUNK;
        read_chunk(r, row, rows_left(row, end));
        read_d_o(r, row, d_o);
        cs_delta_chunk_ask(&r->chunk, d_state);
    }
}

void cs_cpu_delta_pass(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const void *d_o, const struct cs_delta_pass *out)
{
    const size_t state = state_floats(shape);
    const size_t map = (size_t)shape->key_dim * (size_t)shape->key_dim;
    const int32_t *last = mask->segment + mask->n_segments - 1;
    struct run r = {.in = in};
    float *states = NULL;
    CS_ASSERT(mask->n_tokens > 0 && (out->map == NULL || mask->n_segments == 1));
    begin(ctx, shape, mask, &r, &states);
    for (int32_t h = 0; h < shape->heads; h++) {
        const size_t at = (size_t)h;
        take_head(&r, h);
        if (out->map != NULL || out->state != NULL)
            pass_on(&r, last[0], last[1], out->map != NULL ? out->map + at * map : NULL,
                    out->state != NULL ? out->state + at * state : NULL);
        if (out->d_state != NULL)
            ask_back(&r, mask->segment[0], mask->segment[1], d_o, out->d_state + at * state);
    }
}

/* A row of the result at a time would need a copy: the sum is made beside the state. */
void cs_cpu_delta_join(struct cs_ctx *ctx, const struct cs_delta_shape *shape, const float *map,
                       bool is_transposed, const float *add, float *state)
{
    const int32_t dk = shape->key_dim, dv = shape->value_dim;
    const size_t n = state_floats(shape);
    struct cs_carve carve = cs_carve_begin(ctx);
    float *sum = cs_carve_take(&carve, n * sizeof *sum);
    for (int32_t h = 0; h < shape->heads;
         h++, map += (size_t)dk * (size_t)dk, add += n, state += n) {
        memcpy(sum, add, n * sizeof *sum);
        cs_cpu_sgemm(is_transposed, 0, dk, dv, dk, 1.0f, map, dk, state, dv, 1.0f, sum, dv);
        memcpy(state, sum, n * sizeof *sum);
    }
}
