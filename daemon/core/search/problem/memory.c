/* Adds up the memory of a rank by class. */
#include "core/search/problem/memory.h"

#include "core/base/units.h"

/* Of bytes of a layer of which ranks divide some. */
static int64_t kept(int64_t bytes, struct cs_search_apart apart, bool is_sharded, int32_t shards)
{
    return is_sharded && shards > 1
               ? apart.whole + cs_zero_part(bytes - apart.whole + apart.others, shards)
               : bytes;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void cs_memory_add_work(const struct cs_search_layer *layer, int32_t number,
                        const struct cs_memory_load *load, struct cs_memory_work *work)
{
    const bool is_divided = load->shards > 1;
    work->work = larger(work->work, layer->work_bytes);
    cs_zero_whole_add(&work->whole, number, load->turns > 1 ? load->turns : 1,
                      is_divided && load->zero >= 3 ? cs_search_divided_weights(layer) : 0,
                      is_divided && load->zero >= 2 ? cs_search_divided_grads(layer) : 0);
}

int64_t cs_memory_workspace(const struct cs_memory_work *work)
{
    return work->work + cs_zero_whole_bytes(&work->whole);
}

void cs_memory_add(const struct cs_search_layer *layer, int32_t n,
                   const struct cs_memory_load *load, struct cs_memory *memory)
{
    int64_t saved = 0;
    int32_t chunks = load->chunks > 1 ? load->chunks : 1;
    for (int32_t i = 0; i < n; i++) {
        memory->weights +=
            kept(layer[i].weight_bytes, layer[i].weight_apart, load->zero >= 3, load->shards);
        memory->grads +=
            kept(layer[i].grad_bytes, layer[i].grad_apart, load->zero >= 2, load->shards);
        memory->optimizer += cs_zero_part(layer[i].optim_bytes, load->zero >= 1 ? load->shards : 1);
        saved += layer[i].saved_bytes;
        cs_memory_add_work(&layer[i], load->first + i, load, &memory->of_work);
    }
    memory->activations += (saved * load->in_flight + chunks - 1) / chunks;
    memory->workspace = cs_memory_workspace(&memory->of_work);
}

void cs_memory_share(const struct cs_search_layer *shared, const struct cs_memory_load *load,
                     struct cs_memory *memory)
{
    memory->weights -= shared->weight_bytes;
    memory->grads -= shared->grad_bytes;
    memory->optimizer -= cs_zero_part(shared->optim_bytes, load->zero >= 1 ? load->shards : 1);
}

int64_t cs_memory_total(const struct cs_memory *memory)
{
    return memory->weights + memory->grads + memory->optimizer + memory->activations +
           memory->boundary + memory->workspace + memory->windows;
}

void cs_memory_explain(const struct cs_memory *memory, int32_t rank, const char *stage,
                       int32_t in_flight, int64_t cap, struct cs_buf *out)
{
    const struct {
        const char *name;
        int64_t bytes;
    } row[] = {
        {"activations", memory->activations},
        {"weights",     memory->weights    },
        {"gradients",   memory->grads      },
        {"optimizer",   memory->optimizer  },
        {"boundary",    memory->boundary   },
        {"workspace",   memory->workspace  },
        {"windows",     memory->windows    },
    };

    char need[CS_UNITS_CAP], have[CS_UNITS_CAP], part[CS_UNITS_CAP];
    cs_bytes_print(need, sizeof need, (uint64_t)cs_memory_total(memory));
    cs_bytes_print(have, sizeof have, (uint64_t)cap);
    cs_buf_addf(out, "rank %d (%s) needs %s of %s:", rank, stage, need, have);
    for (size_t i = 0; i < CS_ARRAY_LEN(row); i++) {
        if (row[i].bytes == 0)
            continue;
        cs_bytes_print(part, sizeof part, (uint64_t)row[i].bytes);
        cs_buf_addf(out, " %s %s,", part, row[i].name);
    }
    cs_buf_addf(out, " with %d slot%s in flight", in_flight, CS_PLURAL(in_flight));
}
