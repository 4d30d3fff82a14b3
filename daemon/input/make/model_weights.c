/* Fresh weights of a part, as tensors of a file. */
#include <math.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/philox.h"
#include "core/base/system/cores.h"
#include "core/base/system/normals.h"
#include "input/make/model_parts.h"

/* Standard deviation of a fresh weight. Positions start as strong as the patches beside them, else
 * attention by place is learned late; outputs of a block start small, so that its residual stream
 * keeps its scale (GPT-2: 1 / sqrt(2 layers)). */
static double spread(const struct cs_tensor_info *info, const struct cs_arch *arch)
{
    double std = (double)arch->initializer_range;
    if (info->role == CS_PARAM_POSITION)
        return std * sqrt((double)(arch->channels * arch->patch_size * arch->patch_size));
    if (info->role == CS_PARAM_O_W || info->role == CS_PARAM_DOWN_W ||
        info->role == CS_PARAM_MIX_OUT_W || info->role == CS_PARAM_EXPERT_DOWN_W)
        return std / sqrt(2.0 * arch->n_layers);
    return std;
}

static void fill(const struct cs_tensor_info *info, const struct cs_arch *arch, uint64_t seed,
                 int64_t n, float *out)
{
    uint64_t name = cs_fnv1a64(info->name, strlen(info->name));
    if (info->init == CS_INIT_NORMAL)
        cs_philox_fill_normal_on(cs_cores_each(1), seed, name, n, spread(info, arch), out);
    else if (info->init == CS_INIT_DECAY)
        cs_philox_fill_decay(seed, name, 0, n, out);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = info->init == CS_INIT_ONE ? 1.0f : 0.0f;
}

int cs_make_weights(const struct cs_arch *arch, const struct cs_composite_family *family,
                    uint64_t seed, struct cs_arena *arena, struct cs_st_out **out)
{
    struct cs_tensor_info *info;
    const int n = cs_arch_tensors(arch, arena, &info);
    *out = CS_NEW_ARRAY(arena, struct cs_st_out, n);
    for (int i = 0; i < n; i++) {
        struct cs_st_out *o = &(*out)[i];
        int64_t count = 1;
        *o = (struct cs_st_out){.dtype = CS_F32, .n_dims = info[i].n_dims, .is_f32 = 1};
        for (int d = 0; d < info[i].n_dims; d++) {
            o->dim[d] = info[i].dim[d];
            count *= info[i].dim[d];
        }
        o->name = family != NULL
                      ? cs_composite_disk_name(family, arch->kind, info[i].name, NULL, NULL, arena)
                      : info[i].name;
        float *values = CS_NEW_ARRAY(arena, float, count);
        fill(&info[i], arch, seed, count, values);
        o->data = values;
    }
    return n;
}
