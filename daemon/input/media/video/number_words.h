/* Whole numbers in English words: "sixty-four", "one hundred and one". */
#ifndef CS_INPUT_MEDIA_VIDEO_NUMBER_WORDS_H
#define CS_INPUT_MEDIA_VIDEO_NUMBER_WORDS_H

enum { CS_NUMBER_WORDS_MAX = 999999, CS_NUMBER_WORDS_CAP = 128 };

/* n: 0 to CS_NUMBER_WORDS_MAX. Spelled as Python's num2words does. */
void cs_number_words(int n, char out[CS_NUMBER_WORDS_CAP]);

#endif
