//! What a person is asked, what the answer covers, and what is loaded after it.
