/* Finds the orientation among the chunks that libpng has kept. */
#include "input/picture/png_orientation.h"

#include <string.h>

#include "input/picture/exif.h"

/* An Exif block counts before its text form, both before XMP; of several the last. */
enum cs_status cs_png_orientation(png_structp png, png_infop info, int *out, struct cs_err *err)
{
    png_unknown_chunkp chunks = NULL;
    png_textp texts = NULL;
    int n_chunks = png_get_unknown_chunks(png, info, &chunks), n_texts = 0;
    const png_text *profile = NULL, *xmp = NULL;

    *out = CS_ORIENTATION_NONE;
    (void)png_get_text(png, info, &texts, &n_texts);
    for (int i = 0; i < n_texts; i++) {
        if (strcmp(texts[i].key, "Raw profile type exif") == 0)
            profile = &texts[i];
        if (strcmp(texts[i].key, "XML:com.adobe.xmp") == 0)
            xmp = &texts[i];
    }
    while (n_chunks > 0 && memcmp(chunks[n_chunks - 1].name, "eXIf", 4) != 0)
        n_chunks--;
    if (n_chunks > 0)
        CS_TRY(cs_exif_orientation(chunks[n_chunks - 1].data, chunks[n_chunks - 1].size, out, err));
    else if (profile != NULL)
        CS_TRY(cs_exif_profile_orientation(profile->text, strlen(profile->text), out, err));
    if (*out == CS_ORIENTATION_NONE && xmp != NULL)
        *out = cs_xmp_orientation(xmp->text, strlen(xmp->text));
    return CS_OK;
}
