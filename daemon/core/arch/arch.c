/* What follows from an architecture alone: kinds of its blocks, rows of an item. */
#include "core/arch/arch.h"

int32_t cs_arch_block_attention(const struct cs_arch *arch, int32_t block)
{
    return arch->block_attention != NULL ? arch->block_attention[block] : 0;
}

enum cs_mixer cs_arch_block_mixer(const struct cs_arch *arch, int32_t block)
{
    return arch->block_mixer != NULL ? (enum cs_mixer)arch->block_mixer[block] : CS_MIXER_ATTENTION;
}

enum cs_ffn cs_arch_block_ffn(const struct cs_arch *arch, int32_t block)
{
    return arch->block_ffn != NULL ? (enum cs_ffn)arch->block_ffn[block] : CS_FFN_DENSE;
}

int32_t cs_arch_expert_blocks(const struct cs_arch *arch)
{
    int32_t n = 0;
    for (int32_t i = 0; i < arch->n_layers; i++)
        n += cs_arch_block_ffn(arch, i) == CS_FFN_EXPERTS;
    return n;
}

int32_t cs_arch_item_rows(const struct cs_arch *arch)
{
    int32_t grid[3];
    cs_front_fixed_grid(arch, grid);
    return grid[0] > 0 ? cs_front_out_rows(arch, grid) : 0;
}

int32_t cs_arch_inner_rows(const struct cs_arch *arch)
{
    int32_t grid[3];
    cs_front_fixed_grid(arch, grid);
    return grid[0] > 0 ? cs_front_rows(arch, grid) : 0;
}
