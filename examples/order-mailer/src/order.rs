//! An order as the shop publishes it.

use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Order {
    pub(crate) number: String,
    pub(crate) customer: String,
    /// The shop lets people order without an address.
    email: Option<String>,
    pub(crate) items: Vec<Item>,
    pub(crate) currency: String,
    /// In hundredths of the currency: money is no floating point number.
    pub(crate) total_cents: i64,
}

#[derive(Deserialize)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) quantity: u32,
}

impl Order {
    /// The address that the confirmation goes to.
    ///
    /// # Errors
    /// If the order cannot be confirmed by mail; the text says why.
    pub(crate) fn check(&self) -> Result<&str, String> {
        if self.total_cents < 0 {
            return Err(format!("expected order {} to have a total of at least 0, got {} cents", self.number, self.total_cents));
        }
        let is_address = |email: &str| matches!(email.split_once('@'), Some((user, domain)) if !user.is_empty() && domain.contains('.'));
        match self.email.as_deref() {
            Some(email) if is_address(email) => Ok(email),
            Some(email) => Err(format!("expected order {} to have a recipient such as `ada@mail.example`, got `{email}`", self.number)),
            None => Err(format!("expected order {} to have a recipient, got none", self.number)),
        }
    }
}
