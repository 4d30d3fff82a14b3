/* One chunk of the gated delta rule for one head, forward and backward: what cs_ops.delta does
 * chunk by chunk. Row vectors, fp32; n rows, dk = key_dim, dv = value_dim, state S (dk, dv):
 *
 *     S <- e^g S;   u = beta (v - k S);   S <- S + k^T u;   o = q S
 *
 * in the form that needs matrix products only. With G the running sum of g in the chunk,
 * D_ij = e^(G_i - G_j) for i >= j and L_ij = beta_i D_ij k_i.k_j for i > j:
 *
 *     U0 = (I + L)^-1 (beta v)    W = (I + L)^-1 (beta e^G k)    A = tril(q k^T) D    Kd = e^(G_n - G) k
 *     U = U0 - W S                o = (e^G q) S + A U            S' = e^(G_n) S + Kd^T U
 *
 * Source: Yang, Kautz, Hatamizadeh, "Gated Delta Networks" (2024); the gradients are derived from
 * these formulas. */
#ifndef CS_KERNELS_CPU_DELTA_CHUNK_H
#define CS_KERNELS_CPU_DELTA_CHUNK_H

#include "kernels/cpu/cpu.h"

/* All dense; every pointer is scratch of the chunk but where said. */
struct cs_delta_chunk {
    int32_t n, dk, dv;
    float *q, *k;      /* (n, dk) in: normalised, q scaled */
    float *v;          /* (n, dv) in */
    float *g, *beta;   /* (n) in */
    float *sum, *grow; /* (n) G and e^G */
    float *decay;      /* (n, n) D, 0 above the diagonal */
    float *dots;       /* (n, n) k k^T */
    float *lower;      /* (n, n) L */
    float *qk, *a;     /* (n, n) q k^T; A */
    float *u0, *u;     /* (n, dv) */
    float *w, *kd;     /* (n, dk) */
    float *qs;         /* (n, dk) scratch: e^G q, then dO S^T */
    /* of the backward */
    float *d_o, *du, *dbv; /* (n, dv) d_o in */
    float *dbk, *us;       /* (n, dk) gradient of beta e^G k; U dS'^T */
    float *da, *dl, *m;    /* (n, n) */
    float *dq, *dk_out;    /* (n, dk) out */
    float *dv_out;         /* (n, dv) out */
    float *dg, *dbeta;     /* (n) out */
};

/* Places the arrays of a chunk of up to n rows. */
void cs_delta_chunk_place(struct cs_carve *carve, int32_t n, int32_t dk, int32_t dv,
                          struct cs_delta_chunk *out);
size_t cs_delta_chunk_bytes(int32_t n, int32_t dk, int32_t dv); /* what placing takes at most */

/* Everything that does not need the state; before either of the next two. */
void cs_delta_chunk_begin(struct cs_delta_chunk *c);
/* o (n, dv), state (dk, dv) in and out; o NULL: not needed */
void cs_delta_chunk_forward(struct cs_delta_chunk *c, float *state, float *o);
/* map (dk, dk) in and out: what the rows before and this chunk make of a state */
void cs_delta_chunk_map(struct cs_delta_chunk *c, float *map);
/* d_state (dk, dv) in and out as below, nothing else: no state is needed for it */
void cs_delta_chunk_ask(struct cs_delta_chunk *c, float *d_state);
/* state: the one that entered; d_state (dk, dv): in: gradient of the state that left, out: of the
 * one that entered. Overwrites the outputs. */
void cs_delta_chunk_backward(struct cs_delta_chunk *c, const float *state, float *d_state);

#endif
