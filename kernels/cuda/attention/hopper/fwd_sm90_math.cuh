/* Attention forward on Hopper: the warpgroups that compute. Scores, softmax, values and the output
 * of 64 query rows each. */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_FWD_SM90_MATH_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_FWD_SM90_MATH_CUH

#include "kernels/cuda/attention/hopper/fwd_sm90.cuh"

/* word[j] of lane c becomes word[c] of lane j, among the four lanes of a quad */
__device__ __forceinline__ void cs_quad_transpose(uint32_t (&word)[4], int lane)
{
#pragma unroll
    for (int step = 1; step <= 2; step++) {
        const bool is_odd = lane & step;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (i & step)
                continue;
            const uint32_t got =
                __shfl_xor_sync(0xffffffffu, is_odd ? word[i] : word[i + step], step);
            if (is_odd)
                word[i] = got;
            else
                word[i + step] = got;
        }
    }
}

/* What a step holds for one thread. */
struct cs_fwd_view {
    int32_t flags, stage;
    uint32_t bits[2]; /* of a cell that has a bitmap, else 0 */

    __device__ __forceinline__ bool is(int32_t flag) const
    {
        return flags & flag;
    }
};

/* Everything a computing thread carries. */
template <class S> struct cs_fwd_math {
    using L = cs_fwd_layout<S>;
    static constexpr int OUT = S::PADDED / 2;
    float out[OUT];                                     /* (64, PADDED): WIDE columns, then TAIL */
    float score[S::KEYS / 2];                           /* (64, KEYS) */
    uint32_t query[S::HAS_QUERIES ? S::PADDED / 4 : 1]; /* (64, PADDED), as operand a */
    uint32_t weight[S::KEYS / 4];
    cs_softmax_rows rows;
    cs_ring<S::K_STAGES> keys;   /* the step that was looked at last; between items the next one */
    cs_ring<S::V_STAGES> values; /* the step whose values come next */
    uint32_t base;
    int group, thread;

    __device__ __forceinline__ uint32_t bar(int first, int32_t i) const
    {
        return base + (uint32_t)(first + 8 * i);
    }

    /* Every warp for itself: what it has read may be overwritten. */
    __device__ __forceinline__ void free_stage(int first, int32_t i) const
    {
        __syncwarp();
        if (thread % 32 == 0)
            cs_mbar_arrive(bar(first, i));
    }

    /* Behind the last step of an item the queries are free as well. */
    __device__ __forceinline__ void free_keys(const cs_fwd_view &view) const
    {
        free_stage(L::K_FREE, view.stage);
        if (!S::HAS_QUERIES && view.is(CS_FWD_LAST))
            free_stage(L::Q_FREE, 0);
    }

    __device__ __forceinline__ void free_values(void)
    {
        free_stage(L::V_FREE, values.stage);
        values.step();
    }

    /* The four words of operand a for 16 columns from `octet` octets on, in rows of ROW bytes under
     * the swizzle that is as wide. */
    template <int ROW>
    __device__ __forceinline__ void read_query(uint32_t rows, int octet, uint32_t *word) const
    {
        const int lane = thread % 32, row = thread / 32 * 16 + lane % 16;
        const int at = (octet + lane / 16) ^ (row * ROW / 128 % (ROW / 16));
        uint32_t four[4];
        cs_ldmatrix(rows + (uint32_t)(row * ROW + at * 16), four);
#pragma unroll
        for (int i = 0; i < 4; i++)
            word[i] = four[i];
    }

    /* This warpgroup's queries to registers, where they stay for the item; shared memory is free
     * for the next one's. */
    __device__ __forceinline__ void read_queries(uint32_t q)
    {
#pragma unroll
        for (int c = 0; c < S::WIDE; c += 16)
            read_query<CS_SWIZZLE_128>(q + (uint32_t)(c / 64 * 128 * CS_MASK_CELL), c % 64 / 8,
                                       query + c / 4);
        if constexpr (S::TAIL > 0)
#pragma unroll
            for (int c = 0; c < S::TAIL; c += 16)
                read_query<2 * S::TAIL>(q + S::WIDE * 2 * CS_MASK_CELL, c / 8,
                                        query + (S::WIDE + c) / 4);
        free_stage(L::Q_FREE, 0);
    }

    __device__ __forceinline__ void wait_values(void) const
    {
        cs_mbar_wait(bar(L::V_FULL, values.stage), values.parity);
    }

    __device__ __forceinline__ void take_turn(void) const
    {
        cs_bar_sync(CS_FWD_TURN + group, 2 * CS_WARPGROUP);
    }

    __device__ __forceinline__ void give_turn(void) const
    {
        cs_bar_arrive(CS_FWD_TURN + (group ^ 1), 2 * CS_WARPGROUP);
    }

    /* 16 columns of q k^T: queries from registers, else from shared memory, so many bytes behind q
     * under the swizzle of WIDTH bytes */
    template <int WIDTH>
    __device__ __forceinline__ void issue_columns(uint32_t q, uint64_t k, int column,
                                                  uint32_t bytes)
    {
        if constexpr (S::HAS_QUERIES)
            cs_wgmma<S::KEYS>::template rs<CS_ROW_K>(score, query + column / 4, k, column > 0);
        else
            cs_wgmma<S::KEYS>::template ss<CS_ROW_K, CS_ROW_K>(
                score, cs_wgmma_advance(cs_wgmma_operand<WIDTH>(q), bytes), k, column > 0);
    }

    /* score = q k^T; issued, not waited for */
    __device__ __forceinline__ void issue_scores(uint32_t q, int32_t i)
    {
        if constexpr (!S::HAS_QUERIES) {
            /* Else the compiler computes the operands of all steps of k before the loop over keys
             * and keeps them in registers. */
            asm volatile("" : "+r"(q));
            q = cs_uniform(q);
        }
        const uint32_t k = cs_uniform(base + (uint32_t)(L::K + i * S::K_BYTES));
        const uint64_t wide = cs_wgmma_operand<CS_SWIZZLE_128>(k);
        cs_wgmma_settle<S::KEYS / 2>(score);
        cs_wgmma_fence();
#pragma unroll
        for (int c = 0; c < S::WIDE; c += 16) {
            const uint32_t box = (uint32_t)(c / 64 * 128), step = (uint32_t)(c % 64 * 2);
            issue_columns<CS_SWIZZLE_128>(q, cs_wgmma_advance(wide, box * S::KEYS + step), c,
                                          box * CS_MASK_CELL + step);
        }
        if constexpr (S::TAIL > 0) {
            const uint64_t tail = cs_wgmma_operand<2 * S::TAIL>(k + S::WIDE * 2 * S::KEYS);
#pragma unroll
            for (int c = 0; c < S::TAIL; c += 16)
                issue_columns<2 * S::TAIL>(q + S::WIDE * 2 * CS_MASK_CELL,
                                           cs_wgmma_advance(tail, (uint32_t)c * 2), S::WIDE + c,
                                           (uint32_t)c * 2);
        }
        cs_wgmma_commit();
    }

    /* out += weight v */
    __device__ __forceinline__ void issue_values(int32_t i)
    {
        const uint32_t v = cs_uniform(base + (uint32_t)(L::V + i * S::K_BYTES));
        const uint64_t wide = cs_wgmma_operand<CS_SWIZZLE_128>(v, S::KEYS * 128);
        cs_wgmma_settle<OUT>(out);
        cs_wgmma_fence();
#pragma unroll
        for (uint32_t c = 0; c < S::KEYS; c += 16) {
            cs_wgmma<S::WIDE>::template rs<CS_ROW_MN>(out, weight + c / 4,
                                                      cs_wgmma_advance(wide, c * 128), true);
            if constexpr (S::TAIL > 0)
                cs_wgmma<S::TAIL>::template rs<CS_ROW_MN>(
                    out + S::WIDE / 2, weight + c / 4,
                    cs_wgmma_advance(cs_wgmma_operand<2 * S::TAIL>(v + S::WIDE * 2 * S::KEYS),
                                     c * 2 * S::TAIL),
                    true);
        }
        cs_wgmma_commit();
    }

    /* Drop the scores that the mask forbids. */
    __device__ __forceinline__ void mask(const cs_fwd_view &view)
    {
#pragma unroll
        for (int c = 0; c < S::CELLS; c++)
            if (view.is(CS_FWD_MASKED << c))
                cs_keep<CS_MASK_CELL / 2>(score + c * CS_MASK_CELL / 2, view.bits[c]);
    }

    /* Sums of weights are never negative. Asking keeps the compiler from taking the softmax, on
     * which they depend, behind the wait for the values, where nothing would overlap it. */
    __device__ __forceinline__ void finish_sums(void) const
    {
        if (__any_sync(0xffffffffu, rows.sum[0] < 0.0f || rows.sum[1] < 0.0f))
            asm volatile("trap;");
    }

    /* After the scores have come: to weights, not yet packed. Returns the factors for out. */
    __device__ __forceinline__ cs_softmax_shrink soften(const cs_fwd_args &a,
                                                        const cs_fwd_view &view)
    {
        free_keys(view);
        cs_wgmma_settle<S::KEYS / 2>(score);
        if constexpr (S::IS_CAPPED)
            cs_cap<S::KEYS / 2>(score, a.scales.tanh);
        mask(view);
        const cs_softmax_shrink factors = cs_softmax<S::KEYS / 2, 2>(score, a.scales.exp2, &rows);
        finish_sums();
        return factors;
    }

    __device__ __forceinline__ void pack(void)
    {
#pragma unroll
        for (int i = 0; i < S::KEYS / 4; i++)
            weight[i] = cs_pack_bf16(score[2 * i], score[2 * i + 1]);
    }

    /* After the values have come. */
    __device__ __forceinline__ void shrink(const cs_softmax_shrink &by)
    {
        cs_wgmma_settle<OUT>(out);
        cs_shrink<OUT>(out, by);
    }

    /* A step, as soon as its keys are there. */
    __device__ __forceinline__ cs_fwd_view look(const cs_fwd_step *steps) const
    {
        const int32_t i = keys.stage;
        cs_mbar_wait(bar(L::K_FULL, i), keys.parity);
        const uint32_t bits =
            base + (uint32_t)(L::BITS + i * S::BITS_BYTES + group * S::CELLS * S::BITMAP_BYTES);
        int32_t flags = 0;
        if (thread % 32 == 0) /* which also frees it: no other lane reads what loaders store */
            flags = steps[i].flags[group];
        cs_fwd_view view = {
            (int32_t)cs_uniform((uint32_t)flags), i, {0, 0}
        };
#pragma unroll
        for (int c = 0; c < S::CELLS; c++)
            if (view.is(CS_FWD_BITMAP << c))
                view.bits[c] = cs_shared_word(bits + (uint32_t)(c * S::BITMAP_BYTES + thread * 4));
        return view;
    }

    __device__ __forceinline__ void skip(const cs_fwd_view &view)
    {
        take_turn();
        give_turn();
        free_keys(view);
        wait_values();
        free_values();
    }

    /* To the step after view; behind the last one, nothing. */
    __device__ __forceinline__ cs_fwd_view advance(const cs_fwd_view &view,
                                                   const cs_fwd_step *steps)
    {
        keys.step();
        if (view.is(CS_FWD_LAST))
            return {
                CS_FWD_EMPTY | CS_FWD_OVER, 0, {0, 0}
            };
        return look(steps);
    }

    /* The first step of a run: nothing to overlap it with but the other warpgroup. Returns the next
     * step, as go_on does. */
    __device__ __forceinline__ cs_fwd_view begin_run(const cs_fwd_args &a, uint32_t q,
                                                     const cs_fwd_view &view,
                                                     const cs_fwd_step *steps)
    {
        take_turn();
        issue_scores(q, view.stage);
        give_turn();
        const cs_fwd_view next = advance(view, steps);
        cs_wgmma_wait<0>();
        const cs_softmax_shrink factors = soften(a, view);
        shrink(factors);
        pack();
        return next;
    }

    /* The scores of a step beside the values of the one before. The next step is looked at while
     * the scores are on their way: its keys have a stage of their own. */
    __device__ __forceinline__ cs_fwd_view go_on(const cs_fwd_args &a, uint32_t q,
                                                 const cs_fwd_view &view, const cs_fwd_step *steps)
    {
        take_turn();
        issue_scores(q, view.stage);
        wait_values();
        issue_values(values.stage);
        give_turn();
        const cs_fwd_view next = advance(view, steps);
        cs_wgmma_wait<1>();
        const cs_softmax_shrink factors = soften(a, view);
        cs_wgmma_wait<0>();
        free_values();
        shrink(factors);
        pack();
        return next;
    }

    __device__ __forceinline__ void end_run(void)
    {
        wait_values();
        issue_values(values.stage);
        cs_wgmma_wait<0>();
        cs_wgmma_settle<OUT>(out);
        free_values();
    }

    /* All steps of an item; q: this warpgroup's half of the queries. Runs of steps that concern
     * this warpgroup, with others between them. */
    __device__ __forceinline__ void attend(const cs_fwd_args &a, uint32_t q,
                                           const cs_fwd_step *steps)
    {
        cs_fwd_view view = look(steps);
        while (!view.is(CS_FWD_OVER)) {
            if (view.is(CS_FWD_EMPTY)) {
                skip(view);
                view = advance(view, steps);
                continue;
            }
            view = begin_run(a, q, view, steps);
            while (!view.is(CS_FWD_EMPTY))
                view = go_on(a, q, view, steps);
            end_run();
        }
    }

    __device__ __forceinline__ void begin_item(void)
    {
#pragma unroll
        for (int i = 0; i < OUT; i++)
            out[i] = 0.0f;
        rows = cs_softmax_rows_new();
    }

    /* Leaves what there is of an item that was cut in memory; returns true to the last warpgroup
     * to do so, which has the sum of all pieces then. arrived: a word of shared memory. */
    __device__ __forceinline__ bool join(const cs_fwd_args &a, const cs_fwd_item &item,
                                         int32_t *arrived)
    {
        /* of two items in one share the numbers follow each other */
        float *const first = a.piece + (int64_t)((item.nth_cut % 2) * 2 + group) * S::PIECE;
        float *const own = first + (int64_t)item.share * 4 * S::PIECE + 4 * thread;
#pragma unroll
        for (int i = 0; i < OUT; i += 4)
            __stcg((float4 *)(own + i * CS_WARPGROUP),
                   make_float4(out[i], out[i + 1], out[i + 2], out[i + 3]));
        __stcg((float4 *)(own + OUT * CS_WARPGROUP),
               make_float4(rows.max[0], rows.max[1], rows.sum[0], rows.sum[1]));
        __threadfence();
        cs_bar_sync(CS_FWD_JOIN + group, CS_WARPGROUP);
        if (thread == 0)
            *arrived = atomicAdd(a.arrived + 2 * item.nth_cut + group, 1);
        cs_bar_sync(CS_FWD_JOIN + group, CS_WARPGROUP);
        if (*arrived != item.pieces - 1)
            return false;
        __threadfence();
        begin_item();
        for (int32_t i = 0; i < item.pieces; i++)
            add(a, first + (int64_t)(item.first_share + i) * 4 * S::PIECE + 4 * thread);
        return true;
    }

    /* One more piece. */
    __device__ __forceinline__ void add(const cs_fwd_args &a, const float *piece)
    {
        const float4 more = __ldcg((const float4 *)(piece + OUT * CS_WARPGROUP));
        const float max[2] = {more.x, more.y}, sum[2] = {more.z, more.w};
        float old[2], by[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float top = fmaxf(rows.max[h], max[h]), base = top == -INFINITY ? 0.0f : top;
            old[h] = cs_exp2((rows.max[h] - base) * a.scales.exp2);
            by[h] = cs_exp2((max[h] - base) * a.scales.exp2);
            rows.max[h] = top;
            rows.sum[h] = rows.sum[h] * old[h] + sum[h] * by[h];
        }
#pragma unroll
        for (int i = 0; i < OUT; i += 4) {
            const float4 x = __ldcg((const float4 *)(piece + i * CS_WARPGROUP));
            out[i] = out[i] * old[0] + x.x * by[0];
            out[i + 1] = out[i + 1] * old[0] + x.y * by[0];
            out[i + 2] = out[i + 2] * old[1] + x.z * by[1];
            out[i + 3] = out[i + 3] * old[1] + x.w * by[1];
        }
    }

    /* out and lse of the rows of this item that exist. Threads of a quad hold neighbouring columns
     * of one row: they exchange them so that each writes 16 bytes. */
    __device__ __forceinline__ void write(const cs_fwd_args &a, const cs_fwd_item &item) const
    {
        const int lane = thread % 4;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int32_t at = group * CS_MASK_CELL + thread / 32 * 16 + thread % 32 / 4 + 8 * h;
            const bool is_row = at < item.rows;
            const cs_attention_end end =
                cs_attention_end_of(rows.max[h] * a.scales.exp2 * CS_LN2, cs_quad_sum(rows.sum[h]),
                                    cs_attention_sink_of(a.sink, item.head));
            if (is_row && lane == 0)
                a.lse[(int64_t)item.head * a.tokens + item.row + at] = end.lse;
            __nv_bfloat16 *const to =
                a.o + (int64_t)(item.row + at) * a.o_stride + (int64_t)item.head * S::DIM;
#pragma unroll
            for (int j = 0; j + 4 <= S::DIM / 8; j += 4) {
                uint32_t word[4];
#pragma unroll
                for (int c = 0; c < 4; c++)
                    word[c] = cs_pack_bf16(out[4 * (j + c) + 2 * h] * end.factor,
                                           out[4 * (j + c) + 2 * h + 1] * end.factor);
                cs_quad_transpose(word, lane);
                if (is_row)
                    *(uint4 *)(to + 8 * (j + lane)) = {word[0], word[1], word[2], word[3]};
            }
#pragma unroll
            for (int j = S::DIM / 32 * 4; j < S::DIM / 8; j++)
                if (is_row)
                    *(uint32_t *)(to + 8 * j + 2 * lane) = cs_pack_bf16(
                        out[4 * j + 2 * h] * end.factor, out[4 * j + 2 * h + 1] * end.factor);
        }
    }
};

/* A word that a loader stored, by one lane, which also frees it, for the warp. */
__device__ __forceinline__ int32_t cs_fwd_word(const int32_t *from)
{
    return __shfl_sync(0xffffffffu, threadIdx.x % 32 == 0 ? *from : 0, 0);
}

template <class S>
__device__ __forceinline__ void cs_fwd_compute(const cs_fwd_args &a, uint8_t *shared)
{
    using L = cs_fwd_layout<S>;
    cs_fwd_math<S> m;
    m.base = cs_smem(shared);
    m.group = (int)threadIdx.x / CS_WARPGROUP - 1;
    m.thread = (int)threadIdx.x % CS_WARPGROUP;
    m.keys = {0, 0};
    m.values = {0, 0};
    if (m.group == 1)
        m.give_turn();
    const uint32_t q = m.base + (uint32_t)(L::Q + m.group * S::Q_BYTES / 2);
    uint32_t q_parity = 0;
    cs_ring<CS_FWD_ITEMS> slot = {0, 0};
    for (;;) {
        cs_mbar_wait(m.bar(L::ITEM_FULL, slot.stage), slot.parity);
        const cs_fwd_item *const now = (const cs_fwd_item *)(shared + L::ITEM) + slot.stage;
        if (cs_fwd_word(&now->rows) == 0)
            return;
        m.begin_item();
        if (cs_fwd_word(&now->first) < cs_fwd_word(&now->end)) {
            cs_mbar_wait(m.base + L::Q_FULL, q_parity);
            q_parity ^= 1;
            if constexpr (S::HAS_QUERIES)
                m.read_queries(q);
            m.attend(a, q, (const cs_fwd_step *)(shared + L::STEP));
        }
        /* not before: it would fill registers all the time */
        cs_fwd_item item = {};
        item.row = cs_fwd_word(&now->row);
        item.rows = cs_fwd_word(&now->rows);
        item.head = cs_fwd_word(&now->head);
        item.pieces = cs_fwd_word(&now->pieces);
        if (item.pieces > 1) {
            item.nth_cut = cs_fwd_word(&now->nth_cut);
            item.share = cs_fwd_word(&now->share);
            item.first_share = cs_fwd_word(&now->first_share);
        }
        m.free_stage(L::ITEM_FREE, slot.stage);
        slot.step();
        if (item.pieces > 1 && !m.join(a, item, (int32_t *)(shared + L::ARRIVED) + m.group))
            continue;
        m.write(a, item);
    }
}

#endif
